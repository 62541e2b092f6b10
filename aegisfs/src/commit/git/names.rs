//! Which names of `.git` may land.

use super::super::reason::Reason;
use super::super::state::State;

/// What to do with a changed name inside `.git`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// It may land, once its content has been checked.
    Land,
    /// It says nothing that git does not find out by itself; it stays out without a word.
    Skip,
    /// It does not land.
    Refuse(Reason),
}

/// The rule for the name `rest` below `.git`, which the agent turned from `base` to `agent`.
pub(crate) fn rule(rest: &[u8], base: &State, agent: &State) -> Rule {
    let components: Vec<&[u8]> = rest.split(|byte| *byte == b'/').collect();
    if rest.ends_with(b".lock") {
        return Rule::Skip;
    }
    match components.as_slice() {
        [] | [b""] => Rule::Skip,
        [b"objects", rest @ ..] => object(rest, base, agent),
        // A listing for servers without git, written by every repack.
        [b"info", b"refs"] => Rule::Skip,
        [b"refs", b"replace", ..] => Rule::Refuse(Reason::GitLocked),
        [b"refs" | b"logs", ..] => reference(agent),
        [name] => plain(name, agent),
        [name, ..] => other(name),
    }
}

/// Objects are only ever added: which of the host's are needed no more is for its own git to say.
fn object(rest: &[&[u8]], base: &State, agent: &State) -> Rule {
    let is_new = *base == State::Absent && matches!(agent, State::File { .. });
    match rest {
        [b"info", name] if name.ends_with(b"alternates") => Rule::Refuse(Reason::GitLocked),
        [] | [_] if agent.is_directory() && *base == State::Absent => match rest {
            [name] if *name == b"pack" || is_hexadecimal(name, 2) => Rule::Land,
            [] => Rule::Land,
            _ => Rule::Skip,
        },
        [prefix, name] if is_hexadecimal(prefix, 2) && is_hexadecimal(name, 38) && is_new => {
            Rule::Land
        }
        [b"pack", name] if is_new && is_pack(name) => Rule::Land,
        _ => Rule::Skip,
    }
}

/// Only the pack and its index: what lies beside them (`.rev`, `.bitmap`, `.mtimes`, the
/// multi-pack index) speeds git up, and a false one misleads it.
fn is_pack(name: &[u8]) -> bool {
    let stem = name
        .strip_suffix(b".pack")
        .or_else(|| name.strip_suffix(b".idx"));
    stem.and_then(|stem| stem.strip_prefix(b"pack-"))
        .is_some_and(|hash| is_hexadecimal(hash, 40))
}

fn reference(agent: &State) -> Rule {
    match agent {
        State::File { .. } | State::Absent => Rule::Land,
        State::Directory { .. } => Rule::Land,
        State::Symlink { .. } | State::Other => Rule::Refuse(Reason::GitUnknown),
    }
}

fn plain(name: &[u8], agent: &State) -> Rule {
    match (name, agent) {
        (b"HEAD" | b"index" | b"packed-refs", State::File { .. }) => Rule::Land,
        (b"packed-refs", State::Absent) => Rule::Land,
        (name, State::File { .. } | State::Absent) if is_note(name) => Rule::Land,
        (b"HEAD" | b"index", _) => Rule::Refuse(Reason::GitBroken(
            "the agent removed `HEAD` or the index of the repository".to_owned(),
        )),
        (b"shallow" | b"config" | b"config.worktree" | b"commondir" | b"gitdir", _) => {
            Rule::Refuse(Reason::GitLocked)
        }
        _ => other(name),
    }
}

/// Files in which git notes what it is about or was about to do. They hold names of objects and
/// messages, and git never takes a command from them.
fn is_note(name: &[u8]) -> bool {
    is_volatile(name)
        || matches!(
            name,
            b"MERGE_HEAD"
                | b"MERGE_MSG"
                | b"MERGE_MODE"
                | b"SQUASH_MSG"
                | b"AUTO_MERGE"
                | b"CHERRY_PICK_HEAD"
                | b"REVERT_HEAD"
        )
}

/// Notes about what is over. When the host has newer ones, those are right.
pub(crate) fn is_volatile(name: &[u8]) -> bool {
    matches!(name, b"COMMIT_EDITMSG" | b"FETCH_HEAD" | b"ORIG_HEAD")
}

fn other(name: &[u8]) -> Rule {
    match name {
        b"rebase-merge" | b"rebase-apply" | b"sequencer" => Rule::Refuse(Reason::GitUnfinished),
        name if name.starts_with(b"BISECT_") => Rule::Refuse(Reason::GitUnfinished),
        b"hooks" | b"info" | b"modules" | b"worktrees" | b"branches" | b"remotes" => {
            Rule::Refuse(Reason::GitLocked)
        }
        _ => Rule::Refuse(Reason::GitUnknown),
    }
}

fn is_hexadecimal(name: &[u8], length: usize) -> bool {
    name.len() == length
        && name
            .iter()
            .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commit::state::Digest;

    const FILE: State = State::File {
        sha256: Digest::new([0; 32]),
        mode: 0o644,
    };

    fn added(rest: &str) -> Rule {
        rule(rest.as_bytes(), &State::Absent, &FILE)
    }

    #[test]
    fn what_a_commit_writes_lands() {
        let object = format!("objects/ab/{}", "0".repeat(38));
        let pack = format!("objects/pack/pack-{}.pack", "a".repeat(40));
        for name in [
            &object,
            &pack,
            "refs/heads/x/y",
            "logs/HEAD",
            "HEAD",
            "index",
            "COMMIT_EDITMSG",
        ] {
            assert_eq!(added(name), Rule::Land, "{name}");
        }
    }

    #[test]
    fn what_git_runs_or_follows_is_refused() {
        for name in [
            "config",
            "config.worktree",
            "hooks/pre-commit",
            "info/attributes",
            "info/grafts",
            "objects/info/alternates",
            "objects/info/http-alternates",
            "commondir",
            "shallow",
            "modules/x/config",
            "worktrees/x/gitdir",
            "refs/replace/abc",
        ] {
            assert_eq!(added(name), Rule::Refuse(Reason::GitLocked), "{name}");
        }
        assert_eq!(
            added("rebase-merge/git-rebase-todo"),
            Rule::Refuse(Reason::GitUnfinished)
        );
        assert_eq!(added("something"), Rule::Refuse(Reason::GitUnknown));
    }

    #[test]
    fn what_only_speeds_git_up_stays_out() {
        for name in [
            "index.lock",
            "objects/pack/multi-pack-index",
            "objects/info/commit-graph",
        ] {
            assert_eq!(added(name), Rule::Skip, "{name}");
        }
        let object = format!("objects/ab/{}", "0".repeat(38));
        assert_eq!(rule(object.as_bytes(), &FILE, &State::Absent), Rule::Skip);
    }
}
