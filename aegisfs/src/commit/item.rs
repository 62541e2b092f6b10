//! One name on its way back.

use aegis_policies::RelPath;
use aegis_policies::label::{Label, Labels};

use super::reason::Reason;
use super::state::State;
use crate::overlay::changes::Content;

/// What landing an item does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Makes a name.
    Create,
    /// Changes content or a link's target.
    Modify,
    /// Removes a name.
    Delete,
    /// Changes permission bits only.
    Mode,
    /// Turns one kind of thing into another.
    Retype,
    /// Makes a name for what had another one.
    Rename,
}

/// What an item lands together with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub enum Group {
    /// By itself.
    Files,
    /// Objects of the project's repository: they come first and harm nobody when left over.
    Objects,
    /// The rest of the project's `.git`: all of it or none.
    Git,
}

/// One changed name.
#[derive(Debug)]
pub struct Item {
    /// The name.
    pub path: RelPath,
    /// What landing it does.
    pub action: Action,
    /// What both sides started from.
    pub base: State,
    /// What the agent left.
    pub agent: State,
    /// Where the agent's bytes are.
    pub content: Option<Content>,
    /// The shadow's node.
    pub node: u64,
    /// The host's name of what was moved here.
    pub moved_from: Option<RelPath>,
    /// What kind of name it is.
    pub labels: Labels,
    /// What it lands together with.
    pub group: Group,
    /// Why it does not land, when it does not.
    pub refusal: Option<Reason>,
    /// What policy wants a person to be asked about it, apart from the landing as a whole.
    pub question: Option<String>,
}

impl Item {
    /// Whether a person's own tools will execute or trust what lands here.
    #[must_use]
    pub fn is_sensitive(&self) -> bool {
        is_sensitive(self.labels)
    }

    /// Whether landing it makes a name that is not there.
    pub(crate) fn makes_name(&self) -> bool {
        self.base == State::Absent && self.agent != State::Absent
    }

    /// Whether landing it takes away what the host has under the name.
    pub(crate) fn takes_away(&self) -> bool {
        self.base.is_taken_away_by(&self.agent)
    }

    /// Refuses the item, unless an earlier rule did.
    pub(crate) fn refuse(&mut self, reason: Reason) {
        self.refusal.get_or_insert(reason);
    }
}

/// Whether a name with these labels is one that a person's own tools will execute or trust.
pub(crate) fn is_sensitive(labels: Labels) -> bool {
    [
        Label::Ci,
        Label::BuildScript,
        Label::RunsLater,
        Label::AgentConfig,
        Label::VcsLocked,
    ]
    .into_iter()
    .any(|label| labels.has(label))
}

impl Action {
    /// What turns `base` into `agent`.
    #[must_use]
    pub fn between(base: &State, agent: &State, moved: bool) -> Self {
        match (base, agent) {
            (State::Absent, _) if moved => Self::Rename,
            (State::Absent, _) => Self::Create,
            (_, State::Absent) => Self::Delete,
            (State::File { sha256: one, .. }, State::File { sha256: other, .. })
                if one == other =>
            {
                Self::Mode
            }
            (State::Directory { .. }, State::Directory { .. }) => Self::Mode,
            (State::File { .. }, State::File { .. })
            | (State::Symlink { .. }, State::Symlink { .. }) => Self::Modify,
            _ => Self::Retype,
        }
    }

    /// The word for it, as `diff` and `review` print it.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Modify => "modify",
            Self::Delete => "delete",
            Self::Mode => "mode",
            Self::Retype => "retype",
            Self::Rename => "rename",
        }
    }
}
