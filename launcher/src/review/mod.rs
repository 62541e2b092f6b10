//! Showing what a session changed.
