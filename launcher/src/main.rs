//! The aegis-os command.
fn main() {}
