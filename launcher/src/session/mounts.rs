//! The mounts of this process, from /proc/self/mountinfo (proc_pid_mountinfo(5)).

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// One mounted file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// The mount's id, as statx(2) reports it.
    pub id: u64,
    /// Where it is mounted.
    pub at: PathBuf,
    /// The type with its subtype, such as `ext4` or `fuse.sshfs`.
    pub kind: String,
    /// What the file system says its source is.
    pub source: OsString,
}

/// Every mount that this process can see.
///
/// # Errors
/// When /proc is not mounted.
pub fn all() -> io::Result<Vec<Mount>> {
    let table = std::fs::read("/proc/self/mountinfo")?;
    Ok(table
        .split(|byte| *byte == b'\n')
        .filter_map(parse)
        .collect())
}

fn parse(line: &[u8]) -> Option<Mount> {
    let mut fields = line.split(|byte| *byte == b' ');
    let id = std::str::from_utf8(fields.next()?).ok()?.parse().ok()?;
    let at = unescape(fields.nth(3)?);
    // Optional fields stand between the options and a lone hyphen.
    let mut rest = fields.skip_while(|field| *field != b"-").skip(1);
    let kind = String::from_utf8_lossy(rest.next()?).into_owned();
    let source = unescape(rest.next()?);
    Some(Mount {
        id,
        at: at.into(),
        kind,
        source,
    })
}

/// Undoes the kernel's `\ooo` escapes of space, tab, line feed and backslash.
fn unescape(field: &[u8]) -> OsString {
    let mut plain = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, after)) = rest.split_first() {
        match (first, octal(after)) {
            (b'\\', Some(byte)) => {
                plain.push(byte);
                rest = after.get(3..).unwrap_or_default();
            }
            _ => {
                plain.push(*first);
                rest = after;
            }
        }
    }
    OsString::from_vec(plain)
}

fn octal(digits: &[u8]) -> Option<u8> {
    let text = std::str::from_utf8(digits.get(..3)?).ok()?;
    u8::from_str_radix(text, 8).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_a_line_with_optional_fields_and_escapes() {
        let line = br"36 35 0:51 / /mnt/a\040b\134c rw,nosuid shared:7 master:1 - fuse.aegisfs aegisfs:x rw";
        let mount = parse(line).unwrap();
        assert_eq!(mount.id, 36);
        assert_eq!(mount.at, PathBuf::from(r"/mnt/a b\c"));
        assert_eq!(
            (mount.kind.as_str(), mount.source.to_str()),
            ("fuse.aegisfs", Some("aegisfs:x"))
        );
    }

    #[test]
    fn leaves_out_what_is_no_mount() {
        assert_eq!(parse(b""), None);
        assert_eq!(parse(b"36 35 0:51 / /mnt"), None);
        assert!(all().unwrap().iter().any(|mount| mount.kind == "proc"));
    }
}
