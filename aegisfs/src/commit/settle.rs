//! What becomes of one name, from what both sides started from, what the host has now, and what
//! the agent left.

use super::reason::Reason;
use super::state::State;
use crate::merge::pick;

/// What becomes of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The agent did not change it.
    Nothing,
    /// The host has it already.
    Same,
    /// The host gets this; with the agent's content, if it has content that the host's has not.
    Take(State),
    /// Both changed the content: it has to be merged, and gets these permission bits.
    Merge {
        /// The permission bits.
        mode: u32,
    },
    /// It is left alone.
    Left(Reason),
}

/// Decides by the states alone.
pub(crate) fn decide(base: &State, host: &State, agent: &State) -> Verdict {
    if agent == base {
        return Verdict::Nothing;
    }
    if host == agent {
        return Verdict::Same;
    }
    if host == base {
        return Verdict::Take(agent.clone());
    }
    match (base, host, agent) {
        (State::File { .. }, State::File { .. }, State::File { .. }) => files(base, host, agent),
        (State::Absent, State::Directory { .. }, State::Directory { .. }) => Verdict::Same,
        // Whatever its mode is now: what counts is that nothing is in it.
        (State::Directory { .. }, State::Directory { .. }, State::Absent) => {
            Verdict::Take(State::Absent)
        }
        (State::Directory { .. }, State::Directory { .. }, State::Directory { .. }) => {
            Verdict::Left(Reason::Modes)
        }
        (_, State::Absent, _) => Verdict::Left(Reason::HostRemoved),
        (_, _, State::Absent) => Verdict::Left(Reason::HostChanged),
        (State::Absent, _, _) => Verdict::Left(Reason::BothMade),
        _ => Verdict::Left(Reason::Retyped),
    }
}

fn files(base: &State, host: &State, agent: &State) -> Verdict {
    let mode = pick(&base.mode(), &host.mode(), &agent.mode())
        .copied()
        .flatten();
    let Some(mode) = mode else {
        return Verdict::Left(Reason::Modes);
    };
    match pick(&base.sha256(), &host.sha256(), &agent.sha256())
        .copied()
        .flatten()
    {
        None => Verdict::Merge { mode },
        Some(sha256) => {
            let taken = State::File { sha256, mode };
            if taken == *host {
                Verdict::Same
            } else {
                Verdict::Take(taken)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commit::state::Digest;

    fn file(content: u8, mode: u32) -> State {
        State::File {
            sha256: Digest::new([content; 32]),
            mode,
        }
    }

    #[test]
    fn an_untouched_host_takes_the_agents() {
        assert_eq!(
            decide(&file(1, 0o644), &file(1, 0o644), &file(2, 0o755)),
            Verdict::Take(file(2, 0o755))
        );
        assert_eq!(
            decide(&State::Absent, &State::Absent, &file(1, 0o644)),
            Verdict::Take(file(1, 0o644))
        );
    }

    #[test]
    fn content_and_mode_are_separate() {
        // The host changed the mode and the agent the content, and the other way round.
        for (host, agent) in [
            (file(1, 0o755), file(2, 0o644)),
            (file(2, 0o644), file(1, 0o755)),
        ] {
            let verdict = decide(&file(1, 0o644), &host, &agent);
            assert_eq!(verdict, Verdict::Take(file(2, 0o755)));
        }
        assert_eq!(
            decide(&file(1, 0o644), &file(2, 0o755), &file(3, 0o644)),
            Verdict::Merge { mode: 0o755 }
        );
        assert_eq!(
            decide(&file(1, 0o644), &file(1, 0o600), &file(1, 0o755)),
            Verdict::Left(Reason::Modes)
        );
    }

    #[test]
    fn what_the_host_changed_is_not_removed() {
        let verdict = decide(&file(1, 0o644), &file(2, 0o644), &State::Absent);
        assert_eq!(verdict, Verdict::Left(Reason::HostChanged));
        let verdict = decide(&file(1, 0o644), &State::Absent, &file(2, 0o644));
        assert_eq!(verdict, Verdict::Left(Reason::HostRemoved));
        let verdict = decide(&State::Absent, &file(1, 0o644), &file(2, 0o644));
        assert_eq!(verdict, Verdict::Left(Reason::BothMade));
    }

    #[test]
    fn the_same_on_both_sides_is_no_work() {
        assert_eq!(
            decide(&file(1, 0o644), &State::Absent, &State::Absent),
            Verdict::Same
        );
        let directory = |mode| State::Directory { mode };
        assert_eq!(
            decide(&State::Absent, &directory(0o700), &directory(0o755)),
            Verdict::Same
        );
    }
}
