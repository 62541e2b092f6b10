//! Where a symbolic link of the agent's leads, told from its text alone.
//!
//! A leading run of `..` climbs from the link's own directory, which is a real one. `..` behind a
//! name climbs from wherever that name leads, and two harmless links could so be put together to
//! one that leaves; such a text is refused. Names in the text can be links themselves, of the
//! host or of the plan, and are followed.

use std::collections::BTreeMap;

use aegis_policies::RelPath;

use super::beneath::Tree;
use super::names::is_dot_git;
use super::reason::Reason;
use super::state::State;

/// What names will hold once a plan has landed.
pub(crate) type Plan<'a> = BTreeMap<&'a RelPath, &'a State>;

/// As many links as Linux follows on one path (path_resolution(7)).
const FOLLOWED: usize = 40;

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

/// The name that the link at `path` leads to, with every link on the way followed.
pub(crate) fn resolve(
    tree: Tree<'_>,
    plan: &Plan<'_>,
    path: &RelPath,
    target: &[u8],
) -> Result<RelPath, Reason> {
    let (mut at, _) = path.split_last().ok_or(Reason::Root)?;
    let mut waiting = Vec::new();
    let mut followed = 0;
    push(&mut waiting, target)?;
    while let Some(name) = waiting.pop() {
        match name.as_slice() {
            b"" | b"." => continue,
            b".." => {
                let (parent, _) = at.split_last().ok_or(Reason::LinkLeaves)?;
                at = parent;
                continue;
            }
            name if is_dot_git(name) => return Err(Reason::LinkIntoRepository),
            _ => {}
        }
        let next = at.join(&name).map_err(|_| Reason::LinkLeaves)?;
        let link = match plan.get(&next) {
            Some(State::Symlink { target }) => Some(target.clone()),
            Some(_) => None,
            None => tree.link(&next),
        };
        match link {
            None => at = next,
            Some(_) if followed == FOLLOWED => return Err(Reason::LinkLeaves),
            Some(target) => {
                followed += 1;
                push(&mut waiting, &target)?;
            }
        }
    }
    Ok(at)
}

/// Puts the components of a link's text in front of what is still to be walked.
fn push(waiting: &mut Vec<Vec<u8>>, target: &[u8]) -> Result<(), Reason> {
    if target.first() == Some(&b'/') {
        return Err(Reason::LinkLeaves);
    }
    let components = target.split(|byte| *byte == b'/');
    waiting.extend(components.rev().map(<[u8]>::to_vec));
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
