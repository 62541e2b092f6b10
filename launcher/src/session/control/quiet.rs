//! When a snapshot is taken without anybody asking.

use std::time::{Duration, Instant};

use aegis_policies::journal::SnapshotCause;
use aegisfs::overlay::Pulse;

/// How long nothing changes before what has changed is put aside.
const QUIET: Duration = Duration::from_secs(30);

/// What was seen so far.
#[derive(Debug)]
pub(super) struct Quiet {
    pulse: Pulse,
    /// The last change that is not put aside yet was seen at this moment.
    changed: Option<Instant>,
}

impl Quiet {
    pub(super) const fn new(pulse: Pulse) -> Self {
        Self {
            pulse,
            changed: None,
        }
    }

    /// Looks at the pulse of the tree, and says whether now is the time: after a commit, and when
    /// there were changes and have been none for a while.
    pub(super) fn look(&mut self, pulse: Pulse, now: Instant) -> Option<SnapshotCause> {
        let before = std::mem::replace(&mut self.pulse, pulse);
        if pulse.commits != before.commits {
            self.changed = None;
            return Some(SnapshotCause::Commit);
        }
        if pulse.changes != before.changes {
            self.changed = Some(now);
            return None;
        }
        let quiet = self.changed.is_some_and(|last| now - last >= QUIET);
        quiet.then(|| {
            self.changed = None;
            SnapshotCause::Quiet
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quiet_after_changes_and_every_commit_are_put_aside() {
        let start = Instant::now();
        let mut quiet = Quiet::new(Pulse::default());
        let mut look = |second, changes, commits| {
            let pulse = Pulse { changes, commits };
            quiet.look(pulse, start + Duration::from_secs(second))
        };
        assert_eq!(look(60, 0, 0), None);
        assert_eq!(look(61, 5, 0), None);
        assert_eq!(look(80, 6, 0), None);
        assert_eq!(look(100, 6, 0), None);
        assert_eq!(look(110, 6, 0), Some(SnapshotCause::Quiet));
        assert_eq!(look(200, 6, 0), None);
        assert_eq!(look(201, 9, 1), Some(SnapshotCause::Commit));
        assert_eq!(look(290, 9, 1), None);
    }
}
