//! `git` and `aos` inside the sandbox.
