//! What an ordinary local file system does, through the mount. The programs beside this file print
//! what they find; they run in a plain directory and on a mount of its like, and must find the same.

mod alike;
mod devices;
mod differs;
mod durable;
mod identity;
mod notify;
mod stress;
mod unmount;

pub use alike::{PROGRAMS, run_in};
