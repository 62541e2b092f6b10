//! Changes that can be placed in more than one way. Removing one of three equal lines removes the
//! first as well as the last; if the other side changed one of them, which one is meant decides
//! what comes out, and so nothing does.

use similar::{Algorithm, DiffOp, capture_diff_slices};

/// A change of one side: the lines of the base that it may touch, ends included, wherever it is
/// placed, and what it puts there.
struct Change<'a> {
    first: usize,
    end: usize,
    exact: (usize, usize),
    new: &'a [usize],
}

/// Whether a change of the host's and a different one of the agent's can be placed so that they
/// touch. The sides are the base, the host and the agent, as numbers of lines.
pub(super) fn collide([base, host, agent]: &[Vec<usize>; 3]) -> bool {
    let agent = changes(base, agent);
    changes(base, host)
        .iter()
        .any(|change| agent.iter().any(|other| touch(change, other)))
}

fn touch(one: &Change<'_>, other: &Change<'_>) -> bool {
    one.first <= other.end && other.first <= one.end && !is_same(one, other)
}

fn is_same(one: &Change<'_>, other: &Change<'_>) -> bool {
    one.exact == other.exact && one.new == other.new
}

fn changes<'a>(base: &[usize], side: &'a [usize]) -> Vec<Change<'a>> {
    let operations = capture_diff_slices(Algorithm::Myers, base, side);
    operations
        .into_iter()
        .filter_map(|operation| change(base, side, operation))
        .collect()
}

fn change<'a>(base: &[usize], side: &'a [usize], operation: DiffOp) -> Option<Change<'a>> {
    let (old, new) = (
        operation.old_range(),
        side.get(operation.new_range()).unwrap_or_default(),
    );
    let (up, down) = match operation {
        DiffOp::Equal { .. } => return None,
        DiffOp::Replace { .. } => (0, 0),
        DiffOp::Insert { .. } => slide(base, old.start, old.start, new),
        DiffOp::Delete { .. } => slide(
            base,
            old.start,
            old.end,
            base.get(old.clone()).unwrap_or_default(),
        ),
    };
    Some(Change {
        first: old.start.saturating_sub(up),
        end: old.end + down,
        exact: (old.start, old.end),
        new,
    })
}

/// By how many lines a block that is inserted or removed between `start` and `end` can move up and
/// down with the same result: as far as the lines around it repeat it.
fn slide(base: &[usize], start: usize, end: usize, block: &[usize]) -> (usize, usize) {
    let above = base.get(..start).unwrap_or_default().iter().rev();
    let below = base.get(end..).unwrap_or_default().iter();
    let up = above
        .zip(block.iter().rev().cycle())
        .take_while(|(line, own)| line == own)
        .count();
    let down = below
        .zip(block.iter().cycle())
        .take_while(|(line, own)| line == own)
        .count();
    (up, down)
}

#[cfg(test)]
mod tests {
    use super::collide;

    #[test]
    fn one_of_several_equal_lines_can_be_any_of_them() {
        // The host removes one of three, the agent changes the last.
        assert!(collide(&[
            vec![1, 2, 2, 2, 0],
            vec![1, 2, 2, 0],
            vec![1, 2, 2, 6, 0]
        ]));
        assert!(collide(&[
            vec![1, 2, 2, 2, 0],
            vec![1, 2, 2, 2, 2, 0],
            vec![6, 2, 2, 2, 0]
        ]));
    }

    #[test]
    fn changes_apart_do_not_collide() {
        assert!(!collide(&[
            vec![1, 2, 3, 4],
            vec![9, 2, 3, 4],
            vec![1, 2, 3, 8]
        ]));
        assert!(
            !collide(&[vec![1, 2, 3], vec![1, 3], vec![1, 3]]),
            "the same change on both sides"
        );
    }
}
