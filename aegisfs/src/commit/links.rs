//! Where a symbolic link of the agent's leads, told from its text alone.
//!
//! A leading run of `..` climbs from the link's own directory, which is a real one. `..` behind a
//! name climbs from wherever that name leads, and two harmless links could so be put together to
//! one that leaves; such a text is refused.

use aegis_policies::RelPath;

use super::names::is_dot_git;
use super::reason::Reason;

/// Judges the text of the link at `path`.
pub(crate) fn judge(path: &RelPath, target: &[u8]) -> Result<(), Reason> {
    if target.is_empty() || target.first() == Some(&b'/') {
        return Err(Reason::LinkLeaves);
    }
    let mut depth = path.components().count().saturating_sub(1);
    let mut descended = false;
    for component in target.split(|byte| *byte == b'/') {
        match component {
            b"" | b"." => {}
            b".." if descended => return Err(Reason::LinkClimbs),
            b".." => depth = depth.checked_sub(1).ok_or(Reason::LinkLeaves)?,
            name if is_dot_git(name) => return Err(Reason::LinkIntoRepository),
            _ => descended = true,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(path: &[u8], target: &[u8]) -> Result<(), Reason> {
        judge(&RelPath::parse(path).unwrap(), target)
    }

    #[test]
    fn links_inside_pass() {
        for target in [&b"b"[..], b"./b/c", b"../a", b"../../x", b".."] {
            assert_eq!(verdict(b"d/e/l", target), Ok(()), "{target:?}");
        }
    }

    #[test]
    fn links_out_are_refused() {
        assert_eq!(verdict(b"l", b"/etc/passwd"), Err(Reason::LinkLeaves));
        assert_eq!(verdict(b"l", b".."), Err(Reason::LinkLeaves));
        assert_eq!(verdict(b"d/l", b"../../x"), Err(Reason::LinkLeaves));
        assert_eq!(verdict(b"sub/l", b"d/../x"), Err(Reason::LinkClimbs));
        assert_eq!(
            verdict(b"l", b".git/hooks"),
            Err(Reason::LinkIntoRepository)
        );
    }
}
