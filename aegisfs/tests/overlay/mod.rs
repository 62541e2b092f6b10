//! The tree and its mount.

mod attacks;
mod bed;
mod blocks;
mod boundaries;
mod changes;
mod checkpoints;
mod crash;
mod following;
mod full;
mod full_random;
mod listings;
mod model;
mod mounted;
mod nameless;
mod ops;
mod parallel;
mod power;
mod resumed;
mod rewound;
mod semantics;
mod soak;
mod tools;
mod transports;
mod tree;
mod trouble;
mod user;
