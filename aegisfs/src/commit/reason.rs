//! Why one item does not land. Words for people: what happened, why, and what to do next.

use rustix::io::Errno;

use crate::merge::Clash;
use crate::overlay::ContentFile;

/// Why an item is left alone.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Reason {
    // --- refused: the item as the agent left it may not land ---
    /// A `.git` that is not the project's own.
    #[error("a nested `.git` would make git run what it holds")]
    NestedRepository,
    /// The project's own repository, behind a link or a file.
    #[error(
        "the repository lies under another name than `.git`, and only one in `.git` can be landed in"
    )]
    RepositoryElsewhere,
    /// The agent made the project's repository.
    #[error("the agent made this repository; run `git init` yourself to have one")]
    RepositoryMade,
    /// A directory that git takes for a repository.
    #[error(
        "git takes a directory with HEAD, objects and refs for a repository and runs its hooks"
    )]
    BareRepository,
    /// A link out of the project.
    #[error("the link leads out of the project")]
    LinkLeaves,
    /// A link with `..` behind a name: where it leads depends on other links.
    #[error("the link climbs with `..` after a name, so where it leads can not be told")]
    LinkClimbs,
    /// A link into `.git`.
    #[error("the link leads into a `.git`")]
    LinkIntoRepository,
    /// Set-user or set-group bits.
    #[error("set-user and set-group bits do not land")]
    SetId,
    /// A pipe or a socket.
    #[error("pipes, sockets and devices do not land")]
    SpecialFile,
    /// Two names that are one on many systems.
    #[error(
        "`{0}` differs only by letter case or Unicode form, and is the same name on many systems"
    )]
    Collides(String),
    /// A name that a terminal would not show as it is.
    #[error("the name holds control or invisible characters")]
    DeceptiveName,
    /// The project's own directory.
    #[error("the project's directory itself is not changed")]
    Root,
    /// The directory above it does not land.
    #[error("it lies in `{0}`, which does not land")]
    Parent(String),
    /// The agent moved what it holds to a name that does not land.
    #[error("the agent moved it to `{0}`, which does not land; without that it would be lost")]
    MovedAway(String),
    /// Too large to be read in reasonable time.
    #[error("it is {0} bytes large, or says so; that does not land")]
    TooLarge(u64),
    /// The host's file was not copied as a whole before it changed.
    #[error(
        "the host's file changed before all of it was copied, so a part is missing; write it anew or remove it in the session"
    )]
    Torn,
    /// Policy says no.
    #[error("policy: {0}")]
    Policy(String),
    /// A person left it out.
    #[error("you left it out")]
    Declined,
    /// Git would execute it, or it redirects git.
    #[error("git executes this file or is redirected by it")]
    GitLocked,
    /// A name in `.git` that is not known to be harmless.
    #[error("not known to be harmless inside `.git`")]
    GitUnknown,
    /// A rebase or bisection in progress; its to-do list can hold commands.
    #[error(
        "an unfinished rebase, sequence or bisection does not land; finish or abort it in the session"
    )]
    GitUnfinished,
    /// An object, reference or index that is not what its name says.
    #[error("{0}")]
    GitBroken(String),

    // --- conflict: the host's side stands against it ---
    /// Merging failed.
    #[error("{0}; edit one side, or land the rest")]
    Clash(#[from] Clash),
    /// Both changed and the common version is not there.
    #[error("both sides changed it and the version they started from was not kept")]
    NoBase,
    /// Both made it.
    #[error("both sides made it, with different content")]
    BothMade,
    /// The agent changed what the host removed.
    #[error("the host removed it while the agent changed it")]
    HostRemoved,
    /// The agent removed what the host changed.
    #[error("the host changed it while the agent removed it")]
    HostChanged,
    /// A file became a directory or the like.
    #[error("both sides changed it, and not to the same kind of thing")]
    Retyped,
    /// Both changed the permission bits.
    #[error("both sides changed its permission bits")]
    Modes,
    /// Replacing a file takes its other names away from it.
    #[error("it has {0} hard links on the host, and replacing it would part them")]
    HardLinked(u128),
    /// The host removed the directory it lies in.
    #[error("the host removed the directory `{0}` that it lies in")]
    ParentGone(String),
    /// The host changed it between the review and the landing.
    #[error("the host changed it just now; review again")]
    ChangedJustNow,
    /// A reversal has nothing to put there.
    #[error("what was there before the landing is not where it was kept")]
    NotKept,
    /// A directory to be removed holds something.
    #[error("the directory holds names that stay")]
    NotEmpty,
    /// Git on the host changed the same state.
    #[error("git on the host changed it too")]
    ChangedByGit,
    /// Git on the host is at work.
    #[error("`{0}` is there: git is running on the host; land again when it has ended")]
    GitBusy(String),
    /// Part of the repository's state can not land, so none of it does.
    #[error(
        "the repository's references, HEAD and index land together or not at all: {0}; the agent's commits stay in the session"
    )]
    GitTogether(String),
    /// The way to the name leads through a link or a mount.
    #[error("a folder above it is a symbolic link or a mount point on the host")]
    Detour,
    /// The host's side can not be read.
    #[error("it can not be read: {0}")]
    Unreadable(String),
    /// A system call failed for this item alone.
    #[error("{0}")]
    System(String),
}

impl Reason {
    /// Whether the host's side is the reason, and not the item itself.
    #[must_use]
    pub const fn is_conflict(&self) -> bool {
        matches!(
            self,
            Self::Clash(_)
                | Self::NoBase
                | Self::BothMade
                | Self::HostRemoved
                | Self::HostChanged
                | Self::Retyped
                | Self::Modes
                | Self::HardLinked(_)
                | Self::ParentGone(_)
                | Self::ChangedJustNow
                | Self::NotKept
                | Self::NotEmpty
                | Self::ChangedByGit
                | Self::GitBusy(_)
                | Self::GitTogether(_)
                | Self::Detour
                | Self::Unreadable(_)
                | Self::System(_)
        )
    }

    /// Whether references that may lean on such an item have to stay behind too.
    pub(crate) const fn holds_back_git(&self) -> bool {
        !matches!(self, Self::GitLocked | Self::GitUnknown)
    }
}

impl Reason {
    /// Why the content of a changed file could not be read.
    pub(crate) fn of_content(file: &ContentFile, error: std::io::Error) -> Self {
        if file.is_torn() {
            return Self::Torn;
        }
        Self::unreadable(error)
    }

    /// Why a name could not be looked at.
    pub(crate) fn unreadable(error: std::io::Error) -> Self {
        match Self::from(error) {
            Self::System(why) => Self::Unreadable(why),
            detour => detour,
        }
    }
}

/// An error of the file system as the reason for one item.
impl From<std::io::Error> for Reason {
    fn from(error: std::io::Error) -> Self {
        match Errno::from_io_error(&error) {
            // What openat2(2) says to RESOLVE_NO_SYMLINKS, RESOLVE_BENEATH and RESOLVE_NO_XDEV.
            Some(Errno::LOOP | Errno::XDEV) => Self::Detour,
            _ => Self::System(error.to_string()),
        }
    }
}
