//! The tests of the room, as one program.

#![expect(clippy::unwrap_used, reason = "a test that can not go on has failed")]

mod damage;
mod default_policy;
mod entries;
mod gate;
mod journal;
mod positions;
mod stability;
mod tables;
