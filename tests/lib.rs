//! Shared set-up of the end-to-end tests.
