//! The lines that differ between two contents.

use std::time::Duration;

use aegis_policies::path::escape;
use similar::{ChangeTag, TextDiff};

use super::style::{Ink, Style};

/// How many lines of one file's difference are shown.
const LINES: usize = 5_000;
/// After this the difference is cut short by the algorithm, which is then only less tidy.
const PATIENCE: Duration = Duration::from_secs(2);

/// How many lines come and go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) added: usize,
    pub(super) removed: usize,
}

/// Whether the content is shown by lines.
pub(super) fn is_text(bytes: &[u8]) -> bool {
    !bytes.contains(&0)
}

/// Counts lines that come and go.
pub(super) fn count(old: &[u8], new: &[u8]) -> Counts {
    let mut counts = Counts::default();
    for change in diff(old, new).iter_all_changes() {
        match change.tag() {
            ChangeTag::Insert => counts.added += 1,
            ChangeTag::Delete => counts.removed += 1,
            ChangeTag::Equal => {}
        }
    }
    counts
}

/// The difference as unified hunks with three lines around.
pub(super) fn unified(old: &[u8], new: &[u8], style: Style) -> String {
    let diff = diff(old, new);
    let mut text = String::new();
    let mut left = LINES;
    for group in diff.grouped_ops(3) {
        text.push_str(&style.paint(Ink::Place, &place(&group)));
        text.push('\n');
        for change in group
            .iter()
            .flat_map(|operation| diff.iter_changes(operation))
        {
            if left == 0 {
                text.push_str(&style.paint(Ink::Warning, "(cut: more lines differ)"));
                text.push('\n');
                return text;
            }
            left -= 1;
            push_line(&mut text, change.tag(), change.value(), style);
        }
    }
    text
}

fn diff<'a>(old: &'a [u8], new: &'a [u8]) -> TextDiff<'a, 'a, [u8]> {
    let lines = |bytes: &'a [u8]| -> Vec<&'a [u8]> {
        bytes.split_inclusive(|byte| *byte == b'\n').collect()
    };
    TextDiff::configure()
        .timeout(PATIENCE)
        .diff_slices(&lines(old), &lines(new))
}

fn push_line(text: &mut String, tag: ChangeTag, line: &[u8], style: Style) {
    let (sign, ink) = match tag {
        ChangeTag::Equal => (' ', None),
        ChangeTag::Insert => ('+', Some(Ink::Added)),
        ChangeTag::Delete => ('-', Some(Ink::Removed)),
    };
    let ended = line.strip_suffix(b"\n");
    let shown = format!("{sign}{}", visible(ended.unwrap_or(line)));
    text.push_str(&ink.map_or_else(|| shown.clone(), |ink| style.paint(ink, &shown)));
    text.push('\n');
    if ended.is_none() {
        text.push_str("\\ No newline at end of file\n");
    }
}

/// A line as it can be shown: tabs stay, everything else that moves the cursor or hides is spelled.
pub(super) fn visible(line: &[u8]) -> String {
    line.split(|byte| *byte == b'\t')
        .map(escape)
        .collect::<Vec<_>>()
        .join("\t")
}

fn place(group: &[similar::DiffOp]) -> String {
    let (Some(first), Some(last)) = (group.first(), group.last()) else {
        return String::new();
    };
    let old = range(first.old_range().start, last.old_range().end);
    let new = range(first.new_range().start, last.new_range().end);
    format!("@@ -{old} +{new} @@")
}

/// As unified diffs count: from one, and an empty range names the line before it.
fn range(start: usize, end: usize) -> String {
    match end - start {
        0 => format!("{start},0"),
        1 => format!("{}", start + 1),
        length => format!("{},{length}", start + 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hunks_read_like_those_of_diff() {
        let shown = unified(b"a\nb\nc\n", b"a\nB\nc\nd", Style::Plain);
        assert_eq!(
            shown,
            "@@ -1,3 +1,4 @@\n a\n-b\n+B\n c\n+d\n\\ No newline at end of file\n"
        );
        assert_eq!(unified(b"", b"x\n", Style::Plain), "@@ -0,0 +1 @@\n+x\n");
    }

    #[test]
    fn nothing_of_the_agents_reaches_the_terminal_raw() {
        let shown = unified(b"", b"a\tb\x1b]0;x\x07\r\xe2\x80\xae\xff\n", Style::Plain);
        assert_eq!(
            shown,
            "@@ -0,0 +1 @@\n+a\tb\\u{1b}]0;x\\u{7}\\u{d}\\u{202e}\\xff\n"
        );
    }

    #[test]
    fn colours_wrap_whole_lines() {
        let shown = unified(b"a\n", b"b\n", Style::Coloured);
        assert!(
            shown.contains("\x1b[31m-a\x1b[m\n\x1b[32m+b\x1b[m\n"),
            "{shown:?}"
        );
    }

    #[test]
    fn long_differences_are_cut() {
        let many: String = (0..LINES + 10)
            .map(|number| format!("{number}\n"))
            .collect();
        let shown = unified(b"", many.as_bytes(), Style::Plain);
        assert!(shown.ends_with("(cut: more lines differ)\n"));
        assert_eq!(
            count(b"", many.as_bytes()),
            Counts {
                added: LINES + 10,
                removed: 0
            }
        );
    }
}
