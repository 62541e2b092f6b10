//! Names that are not what they seem.

use aegis_policies::RelPath;
pub(crate) use aegis_policies::fold::fold;
use aegis_policies::path::escape;

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disguises_of_dot_git_are_seen() {
        for name in [
            &b".git"[..],
            b".GIT",
            b".g\xe2\x80\x8cit",
            b".g\xc2\xadit",
            b".gi\xe3\x85\xa4t",
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
