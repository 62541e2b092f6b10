//! What the sandbox hides of the host's root.

use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    pub(super) mask: Vec<Mask>,
}

/// One name that the sandbox hides when the host has it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mask {
    /// The absolute path. The last component may hold `*`, which stands for any bytes.
    pub path: String,
    /// What takes its place.
    pub kind: MaskKind,
    /// Why it is hidden.
    pub reason: String,
}

/// What takes the place of a hidden name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MaskKind {
    /// An empty directory in memory.
    Directory,
    /// An empty file that can not be written.
    File,
    /// Whichever of the two the host has.
    Either,
}

impl Mask {
    /// The directory that holds the name, and the pattern of the name.
    #[must_use]
    pub fn split(&self) -> (&str, &str) {
        match self.path.rsplit_once('/') {
            Some(("", name)) => ("/", name),
            Some(split) => split,
            None => ("/", &self.path),
        }
    }

    /// Whether the last component is a pattern, so that the directory must be listed.
    #[must_use]
    pub fn is_pattern(&self) -> bool {
        self.path.contains('*')
    }

    /// Whether a name in the mask's directory is hidden by it.
    #[must_use]
    pub fn covers(&self, name: &[u8]) -> bool {
        wildcard(self.split().1.as_bytes(), name)
    }
}

/// Matches `name` against `pattern`, in which `*` stands for any bytes.
fn wildcard(pattern: &[u8], name: &[u8]) -> bool {
    match pattern.split_first() {
        None => name.is_empty(),
        Some((b'*', rest)) => {
            (0..=name.len()).any(|skip| name.get(skip..).is_some_and(|tail| wildcard(rest, tail)))
        }
        Some((byte, rest)) => name
            .split_first()
            .is_some_and(|(first, tail)| first == byte && wildcard(rest, tail)),
    }
}
