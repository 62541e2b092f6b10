//! Plans as text, and what a command finds inside, run as root and as an ordinary user.

pub mod body;
mod doors;
mod escape;
mod identity;
mod plan;
mod programs;
mod terminal;
mod view;
