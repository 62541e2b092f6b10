//! Names that are not what they seem.

use aegis_policies::RelPath;
use aegis_policies::path::escape;
use unicode_normalization::UnicodeNormalization as _;

/// What a name becomes on a file system that knows neither letter case nor Unicode form (APFS,
/// NTFS, ext4 with casefold). Names with the same fold are one name there.
pub(crate) fn fold(name: &[u8]) -> Vec<u8> {
    let Ok(text) = std::str::from_utf8(name) else {
        return name.to_ascii_lowercase();
    };
    // Upper case first: `ß` and `ſ` have no lower-case partner of their own.
    let cased: String = text.nfd().flat_map(char::to_uppercase).collect();
    let lower: String = cased.chars().flat_map(char::to_lowercase).collect();
    lower
        .nfd()
        .filter(|character| !is_ignored(*character))
        .collect::<String>()
        .into_bytes()
}

/// Whether some file system takes the name for `.git` (CVE-2014-9390, CVE-2019-1352).
pub(crate) fn is_dot_git(name: &[u8]) -> bool {
    let folded = fold(name);
    let trimmed = folded
        .iter()
        .rposition(|byte| !matches!(byte, b' ' | b'.'))
        .map_or(0, |at| at + 1);
    let stem = folded.get(..trimmed).unwrap_or_default();
    stem == b".git" || stem == b"git~1" || folded.starts_with(b".git::")
}

/// Whether a terminal would not show the path as it is.
pub(crate) fn is_deceptive(path: &RelPath) -> bool {
    path.as_bytes()
        .utf8_chunks()
        .any(|chunk| escape(chunk.valid().as_bytes()) != chunk.valid())
}

/// The first component that is a `.git`, and the number of components before it.
pub(crate) fn dot_git_depth(path: &RelPath) -> Option<usize> {
    path.components().position(is_dot_git)
}

/// HFS+ ignores these when it compares names.
const fn is_ignored(character: char) -> bool {
    matches!(character, '\u{200c}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{206a}'..='\u{206f}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_and_form_fold() {
        for (one, other) in [
            ("README", "readme"),
            ("caf\u{e9}", "cafe\u{301}"),
            ("stra\u{df}e", "STRASSE"),
        ] {
            assert_eq!(
                fold(one.as_bytes()),
                fold(other.as_bytes()),
                "{one} {other}"
            );
        }
        assert_ne!(fold(b"a"), fold(b"b"));
        assert_ne!(fold(b"\xff"), fold(b"\xfe"));
    }

    #[test]
    fn disguises_of_dot_git_are_seen() {
        for name in [
            &b".git"[..],
            b".GIT",
            b".g\xe2\x80\x8cit",
            b"git~1",
            b".git. .",
            b".Git::$INDEX",
        ] {
            assert!(is_dot_git(name), "{name:?}");
        }
        for name in [&b".gitignore"[..], b"git", b".github", b"...", b""] {
            assert!(!is_dot_git(name), "{name:?}");
        }
    }

    #[test]
    fn control_characters_are_seen() {
        assert!(is_deceptive(&RelPath::parse(b"a\x1b[2J").unwrap()));
        assert!(is_deceptive(
            &RelPath::parse(b"a\xe2\x80\xaegpj.exe").unwrap()
        ));
        assert!(!is_deceptive(&RelPath::parse(b"latin-\xe9").unwrap()));
    }
}
