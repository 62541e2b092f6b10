//! Out through one door.
