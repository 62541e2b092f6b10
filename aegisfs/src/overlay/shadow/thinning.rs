//! Which snapshots make room for newer ones. Each cause has room of its own, so what those inside can
//! bring about as often as they like (commits, quiet periods) takes none from what the person's own
//! acts left behind.

use aegis_policies::journal::SnapshotCause;

use super::history::Snapshot;

/// Of each cause that is an act of the person's, the newest are kept.
const NEWEST: usize = 32;
/// Of each cause that those inside can bring about, fewer of the newest are kept,
const RECENT: usize = 16;
/// and as many of those before, spread over the time since the first.
const SPREAD: usize = 16;

/// The place of the snapshot that has to go, now that there is another one for this cause.
pub(super) fn surplus(snapshots: &[Snapshot], cause: SnapshotCause) -> Option<usize> {
    if !cause.is_automatic() {
        return None;
    }
    let all = snapshots.iter().enumerate();
    let pool: Vec<(usize, u64)> = all
        .filter(|(_, snapshot)| snapshot.cause == cause)
        .map(|(place, snapshot)| (place, snapshot.at))
        .collect();
    if matches!(cause, SnapshotCause::Quiet | SnapshotCause::Commit) {
        let before = pool.len().saturating_sub(RECENT);
        let before = pool.get(..before).filter(|them| them.len() > SPREAD)?;
        return crowded(before);
    }
    let (oldest, _) = pool.first()?;
    (pool.len() > NEWEST).then_some(*oldest)
}

/// The place of the one that is closest to the one before it in time; never the first. A crowd
/// thins itself out and leaves those alone that stand apart.
fn crowded(pool: &[(usize, u64)]) -> Option<usize> {
    let pairs = pool.iter().zip(pool.iter().skip(1));
    let closest = pairs.min_by_key(|((_, at), (_, next))| next.saturating_sub(*at));
    closest.map(|(_, (place, _))| *place)
}

#[cfg(test)]
mod tests {
    use aegis_policies::journal::SnapshotCause::{self, *};

    use super::super::history::History;

    const SECOND: u64 = 1_000_000_000;

    fn take(history: &mut History, second: u64, cause: SnapshotCause) {
        let seq = history.snapshots().last().map_or(0, |last| last.seq + 1);
        history.put_aside(seq, second * SECOND, None, cause, |_| false);
    }

    fn kept(history: &History, cause: SnapshotCause) -> Vec<u64> {
        let all = history.snapshots().iter();
        all.filter(|snapshot| snapshot.cause == cause)
            .map(|snapshot| snapshot.at / SECOND)
            .collect()
    }

    #[test]
    fn what_happens_inside_takes_no_room_from_acts_outside() {
        let acts = [Requested, Started, Ended, Landing, Rewind];
        for inside in [Commit, Quiet] {
            let mut history = History::default();
            for (second, act) in (0..).zip(acts) {
                take(&mut history, second, act);
            }
            for second in 10..1000 {
                take(&mut history, second, inside);
            }
            for (second, act) in (0..).zip(acts) {
                assert_eq!(kept(&history, act), [second], "{act:?} and {inside:?}");
            }
            assert_eq!(kept(&history, inside).len(), 32);
        }
    }

    #[test]
    fn a_crowd_leaves_those_alone_that_stand_apart() {
        let mut history = History::default();
        let hours: Vec<u64> = (0..8).map(|hour| hour * 3600).collect();
        for second in &hours {
            take(&mut history, *second, Commit);
        }
        for second in 0..500 {
            take(&mut history, 40_000 + second, Commit);
        }
        let kept = kept(&history, Commit);
        assert_eq!(kept.len(), 32);
        assert!(kept.starts_with(&hours), "{kept:?}");
        let recent: Vec<u64> = (40_484..40_500).collect();
        assert!(kept.ends_with(&recent), "{kept:?}");
    }

    #[test]
    fn of_acts_the_newest_are_kept_and_what_was_asked_for_for_ever() {
        for cause in SnapshotCause::ALL {
            let mut history = History::default();
            for second in 0..100 {
                take(&mut history, second, cause);
            }
            let kept = kept(&history, cause);
            match cause {
                Requested => assert_eq!(kept, Vec::from_iter(0..100)),
                Quiet | Commit => assert_eq!((kept.len(), kept.first()), (32, Some(&0))),
                _ => assert_eq!(kept, Vec::from_iter(68..100)),
            }
        }
    }

    #[test]
    fn a_clock_that_goes_back_drops_no_more() {
        let mut history = History::default();
        for second in (0..100).rev() {
            take(&mut history, second, Quiet);
        }
        assert_eq!(kept(&history, Quiet).len(), 32);
    }
}
