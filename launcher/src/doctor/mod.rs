//! What this machine offers to sessions, found out by trying.
