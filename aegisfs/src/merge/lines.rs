//! The line tier.

use std::collections::HashMap;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use similar::TextMerge;

use super::{Clash, slides};

/// What one merge may cost. The content is the agent's, so the worst case is what counts.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The largest side, in bytes.
    pub bytes: usize,
    /// The most lines in one side.
    pub lines: usize,
    /// How long the merge may take.
    pub budget: Duration,
}

impl Default for Limits {
    /// 4 MiB, 60,000 lines, two seconds. A side of two alternating lines is the worst input for the
    /// difference algorithm (time grows with the square of the lines); at this cap it stays bounded
    /// even though a merge that is over its budget runs to its end unobserved.
    fn default() -> Self {
        Self {
            bytes: 4 << 20,
            lines: 60_000,
            budget: Duration::from_secs(2),
        }
    }
}

/// Merges what `host` and `agent` made of `base`, line by line and byte for byte: line endings and
/// a missing last newline stay as they are.
///
/// # Errors
/// [`Clash`] when the sides overlap, are not text, or cost more than `limits`.
pub fn merge_lines(
    base: &[u8],
    host: &[u8],
    agent: &[u8],
    limits: &Limits,
) -> Result<Vec<u8>, Clash> {
    for side in [base, host, agent] {
        check(side, limits)?;
    }
    let (send, receive) = mpsc::channel();
    let (base, host, agent) = (base.to_vec(), host.to_vec(), agent.to_vec());
    thread::Builder::new()
        .name("merge".to_owned())
        // A receiver that gave up is no fault of the worker.
        .spawn(move || send.send(merge(&base, &host, &agent)).ok())
        .map_err(|_| Clash::OverBudget)?;
    receive
        .recv_timeout(limits.budget)
        .unwrap_or(Err(Clash::OverBudget))
}

fn check(side: &[u8], limits: &Limits) -> Result<(), Clash> {
    if side.len() > limits.bytes {
        return Err(Clash::TooLarge);
    }
    if side.contains(&0) {
        return Err(Clash::Binary);
    }
    let lines = side.iter().filter(|byte| **byte == b'\n').count();
    if lines > limits.lines {
        Err(Clash::TooLarge)
    } else {
        Ok(())
    }
}

/// Merges twice, from the first line on and from the last. Where lines repeat, a change can be
/// placed in more than one way; only a result that does not depend on the placing is a merge.
fn merge(base: &[u8], host: &[u8], agent: &[u8]) -> Result<Vec<u8>, Clash> {
    let mut lines = Lines::default();
    let mut sides = [base, host, agent].map(|side| lines.number(side));
    if slides::collide(&sides) {
        return Err(Clash::Overlap);
    }
    let forward = merge_numbers(&sides)?;
    sides.iter_mut().for_each(|side| side.reverse());
    let mut backward = merge_numbers(&sides)?;
    backward.reverse();
    if forward == backward {
        Ok(lines.text(&forward))
    } else {
        Err(Clash::Overlap)
    }
}

/// Every different line by number, so that passes compare numbers and line endings are part of the
/// line.
#[derive(Default)]
struct Lines<'a> {
    numbers: HashMap<&'a [u8], usize>,
    lines: Vec<&'a [u8]>,
}

impl<'a> Lines<'a> {
    fn number(&mut self, side: &'a [u8]) -> Vec<usize> {
        let number = |line| {
            *self.numbers.entry(line).or_insert_with(|| {
                self.lines.push(line);
                self.lines.len() - 1
            })
        };
        side.split_inclusive(|byte| *byte == b'\n')
            .map(number)
            .collect()
    }

    fn text(&self, numbers: &[usize]) -> Vec<u8> {
        numbers
            .iter()
            .filter_map(|number| self.lines.get(*number))
            .copied()
            .flatten()
            .copied()
            .collect()
    }
}

fn merge_numbers(sides: &[Vec<usize>; 3]) -> Result<Vec<usize>, Clash> {
    let [base, host, agent] = sides.each_ref().map(|side| {
        side.iter().fold(String::new(), |mut text, number| {
            text.push_str(&number.to_string());
            text.push('\n');
            text
        })
    });
    let merged = TextMerge::from_lines(base.as_str(), host.as_str(), agent.as_str());
    if merged.is_conflicted() {
        return Err(Clash::Overlap);
    }
    // Only numbers went in, so only numbers come out.
    merged
        .to_string()
        .lines()
        .map(|line| line.parse().map_err(|_| Clash::Overlap))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn merged(base: &str, host: &str, agent: &str) -> Result<String, Clash> {
        merge_lines(
            base.as_bytes(),
            host.as_bytes(),
            agent.as_bytes(),
            &Limits::default(),
        )
        .map(|bytes| String::from_utf8(bytes).unwrap())
    }

    #[test]
    fn different_lines_merge() {
        assert_eq!(
            merged("a\nb\nc\nd\n", "A\nb\nc\nd\n", "a\nb\nc\nD").unwrap(),
            "A\nb\nc\nD"
        );
    }

    #[test]
    fn line_endings_survive() {
        assert_eq!(
            merged(
                "a\r\nb\r\nc\r\nd\r\n",
                "A\r\nb\r\nc\r\nd\r\n",
                "a\r\nb\r\nc\r\nD\r\n"
            )
            .unwrap(),
            "A\r\nb\r\nc\r\nD\r\n"
        );
    }

    #[test]
    fn the_same_line_clashes() {
        assert_eq!(merged("a\n", "b\n", "c\n"), Err(Clash::Overlap));
    }

    #[test]
    fn what_is_not_text_clashes() {
        assert_eq!(merged("a\n", "b\0\n", "a\nc\n"), Err(Clash::Binary));
    }

    #[test]
    fn what_is_too_large_clashes() {
        let limits = Limits {
            lines: 2,
            ..Limits::default()
        };
        assert_eq!(
            merge_lines(b"1\n2\n3\n", b"", b"", &limits),
            Err(Clash::TooLarge)
        );
    }

    #[test]
    fn what_takes_too_long_clashes() {
        let limits = Limits {
            budget: Duration::ZERO,
            ..Limits::default()
        };
        let base = "a\nb\n".repeat(2_000);
        let sides = [base.replace('a', "c"), base.replace('b', "d")];
        let [host, agent] = sides.each_ref().map(String::as_bytes);
        assert_eq!(
            merge_lines(base.as_bytes(), host, agent, &limits),
            Err(Clash::OverBudget)
        );
    }
}
