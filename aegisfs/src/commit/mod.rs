//! The road back: plan, freeze, verify, approve, land.
