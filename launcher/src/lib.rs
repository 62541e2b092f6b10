//! The aegis-os command.
