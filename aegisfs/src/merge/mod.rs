//! Three-way merge: what the host has now, what the agent left, and what both started from.
//!
//! Tier one needs no look inside: a side that did not change yields to the one that did. Tier two
//! merges lines. Anything else is a [`Clash`], and a clash never becomes text: conflict markers do
//! not reach the host.

mod lines;
mod slides;

pub use lines::{Limits, merge_lines};

/// How a merged result came about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub enum Tier {
    /// One side was untouched, or both sides are the same.
    Side,
    /// Both sides changed different lines.
    Lines,
}

/// Why two changes of one file can not both be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Clash {
    /// The same lines changed on both sides.
    #[error("both sides changed the same lines")]
    Overlap,
    /// A side holds a NUL byte, so lines mean nothing.
    #[error("both sides changed it and it is not text")]
    Binary,
    /// A side is larger than what is merged.
    #[error("both sides changed it and it is too large to be merged")]
    TooLarge,
    /// The merge took longer than its budget.
    #[error("both sides changed it and merging took too long")]
    OverBudget,
}

/// Picks the value that one side changed and the other left alone; `None` when both changed it
/// differently.
pub fn pick<'a, T: PartialEq>(base: &T, host: &'a T, agent: &'a T) -> Option<&'a T> {
    if agent == base || agent == host {
        Some(host)
    } else if host == base {
        Some(agent)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::pick;

    #[test]
    fn an_untouched_side_yields() {
        assert_eq!(pick(&1, &1, &2), Some(&2));
        assert_eq!(pick(&1, &2, &1), Some(&2));
        assert_eq!(pick(&1, &2, &2), Some(&2));
        assert_eq!(pick(&1, &2, &3), None);
    }
}
