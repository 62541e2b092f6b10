//! Names inside a project: bytes, relative, and already free of everything that could lead out.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use serde::de::{self, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::fold::is_ignorable;

/// A path relative to the project root, as bytes.
///
/// The empty path is the root itself. Components are separated by one `/`; none of them is empty,
/// `.` or `..`, and none holds a NUL. The bytes need not be UTF-8.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RelPath(Vec<u8>);

/// The reason why bytes are not a [`RelPath`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// The path starts with `/`.
    #[error("the path is absolute")]
    Absolute,
    /// A component is empty, `.` or `..`.
    #[error("the path has an empty, `.` or `..` component")]
    Component,
    /// A component holds a NUL byte, which no file system call can carry.
    #[error("the path holds a NUL byte")]
    Nul,
}

impl RelPath {
    /// The project root.
    #[must_use]
    pub const fn root() -> Self {
        Self(Vec::new())
    }

    /// Parses bytes into a path.
    ///
    /// # Errors
    /// [`PathError`] when the bytes are absolute or hold a component that could lead elsewhere.
    pub fn parse(bytes: &[u8]) -> Result<Self, PathError> {
        if bytes.is_empty() {
            return Ok(Self::root());
        }
        if bytes.first() == Some(&b'/') {
            return Err(PathError::Absolute);
        }
        for component in bytes.split(|byte| *byte == b'/') {
            check_component(component)?;
        }
        Ok(Self(bytes.to_vec()))
    }

    /// The path of `name` inside this directory.
    ///
    /// # Errors
    /// [`PathError`] when `name` is not one plain component.
    pub fn join(&self, name: &[u8]) -> Result<Self, PathError> {
        check_component(name)?;
        if name.contains(&b'/') {
            return Err(PathError::Component);
        }
        let mut bytes = Vec::with_capacity(self.0.len() + 1 + name.len());
        bytes.extend_from_slice(&self.0);
        if !bytes.is_empty() {
            bytes.push(b'/');
        }
        bytes.extend_from_slice(name);
        Ok(Self(bytes))
    }

    /// The directory that holds this path and the last component; `None` for the root.
    #[must_use]
    pub fn split_last(&self) -> Option<(Self, &[u8])> {
        if self.0.is_empty() {
            return None;
        }
        match self.0.iter().rposition(|byte| *byte == b'/') {
            Some(at) => {
                let (parent, rest) = self.0.split_at(at);
                rest.split_first()
                    .map(|(_, name)| (Self(parent.to_vec()), name))
            }
            None => Some((Self::root(), &self.0)),
        }
    }

    /// The components, first to last.
    pub fn components(&self) -> impl Iterator<Item = &[u8]> {
        self.0
            .split(|byte| *byte == b'/')
            .filter(|component| !component.is_empty())
    }

    /// Whether this is the project root.
    #[must_use]
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether `self` is `ancestor` or lies below it.
    #[must_use]
    pub fn starts_with(&self, ancestor: &Self) -> bool {
        ancestor.is_root()
            || self
                .0
                .strip_prefix(ancestor.0.as_slice())
                .is_some_and(|rest| rest.is_empty() || rest.first() == Some(&b'/'))
    }

    /// The bytes, without a leading slash.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The path for a system call that takes a directory descriptor; `.` for the root.
    #[must_use]
    pub fn as_path(&self) -> &Path {
        if self.0.is_empty() {
            Path::new(".")
        } else {
            Path::new(OsStr::from_bytes(&self.0))
        }
    }
}

/// As bytes at once: a list of numbers, which has the same form in a journal, takes many times as
/// long there.
impl Serialize for RelPath {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&self.0)
    }
}

impl<'de> Deserialize<'de> for RelPath {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_bytes(PathVisitor)
    }
}

struct PathVisitor;

impl<'de> Visitor<'de> for PathVisitor {
    type Value = RelPath;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("the bytes of a path")
    }

    fn visit_bytes<E: de::Error>(self, bytes: &[u8]) -> Result<RelPath, E> {
        RelPath::parse(bytes).map_err(E::custom)
    }

    /// Text formats have lists of numbers for bytes.
    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<RelPath, A::Error> {
        let mut bytes = Vec::new();
        while let Some(byte) = list.next_element()? {
            bytes.push(byte);
        }
        self.visit_bytes(&bytes)
    }
}

/// Shows the path with control, bidirectional and non-UTF-8 bytes escaped, fit for a terminal.
impl fmt::Display for RelPath {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_root() {
            return formatter.write_str(".");
        }
        formatter.write_str(&escape(&self.0))
    }
}

/// Makes bytes from an agent safe to print: control characters, bidirectional overrides,
/// zero-width characters and bytes that are not UTF-8 become visible escapes.
#[must_use]
pub fn escape(bytes: &[u8]) -> String {
    let mut shown = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            if is_deceptive(character) {
                shown.extend(character.escape_unicode());
            } else {
                shown.push(character);
            }
        }
        for byte in chunk.invalid() {
            shown.push_str(&format!("\\x{byte:02x}"));
        }
    }
    shown
}

/// Bytes in hexadecimal: digests, and names that are to be exact.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Characters that move the cursor, reorder text or show nothing (Unicode TR 36, "Trojan Source").
#[must_use]
pub fn is_deceptive(character: char) -> bool {
    character.is_control()
        || is_ignorable(character)
        || matches!(character, '\u{2028}'..='\u{2029}' | '\u{fff9}'..='\u{fffb}')
}

/// A text for one line among others: of a long one, its two ends and how much lies between.
#[must_use]
pub fn shorten(text: &str) -> Cow<'_, str> {
    let count = text.chars().count();
    if count <= LONGEST {
        return Cow::Borrowed(text);
    }
    let head: String = text.chars().take(END).collect();
    let tail: String = text.chars().skip(count - END).collect();
    Cow::Owned(format!("{head}...({} more)...{tail}", count - 2 * END))
}

/// How many characters of a text a line shows before it leaves out the middle.
const LONGEST: usize = 200;
/// How many characters of a long text are shown of either end.
const END: usize = 90;

fn check_component(component: &[u8]) -> Result<(), PathError> {
    if component.contains(&0) {
        return Err(PathError::Nul);
    }
    match component {
        b"" | b"." | b".." => Err(PathError::Component),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_what_leads_out() {
        for bytes in [
            &b"/etc"[..],
            b"a//b",
            b"..",
            b"a/../b",
            b"./a",
            b"a/",
            b"a\0b",
        ] {
            assert!(RelPath::parse(bytes).is_err(), "{bytes:?}");
        }
        assert!(RelPath::root().join(b"a/b").is_err());
    }

    #[test]
    fn its_form_in_journals_and_in_text_is_a_list_of_bytes() {
        let path = RelPath::parse(b"a/b\xff").unwrap();
        let bytes = vec![b'a', b'/', b'b', 0xff];
        assert_eq!(
            postcard::to_stdvec(&path).unwrap(),
            postcard::to_stdvec(&bytes).unwrap()
        );
        assert_eq!(
            serde_json::to_string(&path).unwrap(),
            serde_json::to_string(&bytes).unwrap()
        );
        let text = serde_json::to_string(&path).unwrap();
        assert_eq!(serde_json::from_str::<RelPath>(&text).unwrap(), path);
        assert!(serde_json::from_str::<RelPath>("[47]").is_err());
        assert!(postcard::from_bytes::<RelPath>(&[2, b'.', b'.']).is_err());
    }

    #[test]
    fn splits_and_joins() {
        let path = RelPath::parse(b"a/b\xff/c").unwrap();
        let (parent, name) = path.split_last().unwrap();
        assert_eq!(parent.join(name).unwrap(), path);
        assert!(path.starts_with(&parent));
        assert!(
            !RelPath::parse(b"ab")
                .unwrap()
                .starts_with(&RelPath::parse(b"a").unwrap())
        );
    }

    #[test]
    fn shows_hostile_names_harmlessly() {
        assert_eq!(
            escape(b"a\x1b]52;c\x07\xff\xe2\x80\xae"),
            "a\\u{1b}]52;c\\u{7}\\xff\\u{202e}"
        );
        for hidden in ['\u{ad}', '\u{3164}', '\u{fe0f}', '\u{2029}', '\u{e0100}'] {
            assert!(!escape(format!("a{hidden}b").as_bytes()).contains(hidden));
        }
    }

    #[test]
    fn long_texts_lose_their_middle() {
        let short = "\u{e9}".repeat(LONGEST);
        assert_eq!(shorten(&short), short);
        let long = format!("begin{}end", "\u{e9}".repeat(100_000));
        let shown = shorten(&long);
        assert!(shown.starts_with("begin") && shown.ends_with("end"));
        assert!(shown.contains("(99828 more)") && shown.chars().count() <= LONGEST + 20);
    }
}
