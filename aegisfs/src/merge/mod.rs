//! Three-way merge.
