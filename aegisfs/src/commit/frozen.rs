//! Frozen: what exactly would land, copied to where nobody else writes, with one hash over all.

use aegis_policies::{Labels, RelPath};
use sha2::{Digest as _, Sha256};

use super::git::Advance;
use super::gitview::{Carried, Move, View};
use super::item::{Action, Group, is_sensitive};
use super::moves::Moves;
use super::reason::Reason;
use super::stage::Stage;
use super::state::{Digest, State};
use crate::merge::Tier;

/// What would land, and what would not.
#[derive(Debug)]
pub struct Frozen {
    pub(crate) entries: Vec<Entry>,
    pub(crate) same: Vec<Entry>,
    pub(crate) left: Vec<Left>,
    pub(crate) advances: Vec<Advance>,
    pub(crate) view: View,
    pub(crate) stage: Stage,
    pub(crate) manifest: Digest,
    pub(crate) moves: Moves,
}

/// One name that would land.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The name.
    pub path: RelPath,
    /// What landing it does.
    pub action: Action,
    /// What both sides started from.
    pub base: State,
    /// What the agent left.
    pub agent: State,
    /// What the host has now.
    pub old: State,
    /// What the host gets.
    pub new: State,
    /// How the content came about, when both sides changed it.
    pub tier: Option<Tier>,
    /// What it lands together with.
    pub group: Group,
    /// The host's name of what is moved here.
    pub moved_from: Option<RelPath>,
    /// The entry whose landing moves this file away, by number.
    pub(crate) moved_to: Option<usize>,
    /// The shadow's node.
    pub(crate) node: u64,
    /// What kind of name it is.
    pub labels: Labels,
    /// Whether a person's own tools will execute or trust it.
    pub sensitive: bool,
    /// What policy wants a person to be asked about it, apart from the landing as a whole.
    pub question: Option<String>,
}

/// One name that would not land.
#[derive(Clone, Debug)]
pub struct Left {
    /// The name.
    pub path: RelPath,
    /// What the agent did.
    pub action: Action,
    /// What it lands together with.
    pub group: Group,
    /// Why it does not land.
    pub reason: Reason,
}

impl Frozen {
    /// What would land, sorted by path.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// What would not land, and why.
    #[must_use]
    pub fn left(&self) -> &[Left] {
        &self.left
    }

    /// How the repository's branches would move.
    #[must_use]
    pub fn advances(&self) -> &[Advance] {
        &self.advances
    }

    /// How references and HEAD would move.
    #[must_use]
    pub fn moves(&self) -> &[Move] {
        &self.view.moves
    }

    /// The paths that commits and the index bring and that do not lie in the work tree like that.
    #[must_use]
    pub fn carried(&self) -> &[Carried] {
        &self.view.carried
    }

    /// Labels the carried paths. The repository's records count as sensitive when one of these does.
    pub fn label(&mut self, labels: &dyn Fn(&RelPath) -> Labels) {
        for carried in &mut self.view.carried {
            carried.label(labels);
        }
        self.mark_records();
        if self.carries_sensitive() {
            let records = self.entries.iter_mut();
            for entry in records.filter(|entry| entry.group == Group::Git) {
                entry.question = Some(CARRIED.to_owned());
            }
        }
    }

    /// Marks the repository's records by what they bring.
    pub(crate) fn mark_records(&mut self) {
        let carries = self.carries_sensitive();
        let records = self.entries.iter_mut();
        for entry in records.filter(|entry| entry.group == Group::Git) {
            entry.sensitive = carries || is_sensitive(entry.labels);
        }
    }

    /// Whether the repository's records bring something that a person's own tools will execute or
    /// trust.
    #[must_use]
    pub fn carries_sensitive(&self) -> bool {
        self.view.carried.iter().any(|carried| carried.sensitive)
    }

    /// The SHA-256 over everything that would land.
    #[must_use]
    pub const fn manifest(&self) -> Digest {
        self.manifest
    }

    /// Opens the frozen content with this hash.
    ///
    /// # Errors
    /// When nothing of that hash was frozen, because the host has the content already.
    pub fn file(&self, sha256: Digest) -> std::io::Result<std::fs::File> {
        super::site::open_private(&self.stage.path(sha256)).map(Into::into)
    }
}

/// What a person is asked about the repository's records when they bring something sensitive.
const CARRIED: &str =
    "land commits that bring what your own tools run or trust, and that is not among the files";

/// The hash over the entries, in one form that no two different sets share: every field with its
/// length in front.
pub(crate) fn manifest(entries: &[Entry]) -> Digest {
    let mut hasher = Sha256::new();
    hasher.update(b"aegis manifest 1\n");
    let mut field = |bytes: &[u8]| {
        hasher.update((bytes.len() as u64).to_be_bytes());
        hasher.update(bytes);
    };
    for entry in entries {
        field(entry.path.as_bytes());
        field(entry.action.word().as_bytes());
        field(
            entry
                .moved_from
                .as_ref()
                .map_or(b"".as_slice(), RelPath::as_bytes),
        );
        for state in [&entry.old, &entry.new] {
            field(state.noun().as_bytes());
            field(&state.mode().unwrap_or(0).to_be_bytes());
            field(
                state
                    .sha256()
                    .as_ref()
                    .map_or(b"".as_slice(), |sha256| sha256.as_bytes()),
            );
            field(match state {
                State::Symlink { target } => target,
                _ => b"",
            });
        }
    }
    Digest::new(hasher.finalize().into())
}
