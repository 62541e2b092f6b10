//! Everything that looking at a session's changes, or landing them, needs at hand.

use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use aegis_policies::journal::{Journal, SnapshotCause};
use aegis_policies::{Actor, Gate, Labeler, RelPath};
use aegisfs::commit::{Frozen, Plan, Site};
use aegisfs::guard::Guard;
use aegisfs::overlay::Overlay;
use aegisfs::overlay::checkpoint;

use super::words::failed;
use crate::error::CommandError;
use crate::session::config::Config;
use crate::session::home::shown;
use crate::session::serve::ServeError;
use crate::session::{self, Lock, Project, Session, Whereabouts, gate, positions};

/// A session's changes, to be looked at.
#[derive(Debug)]
pub struct Looking {
    session: Session,
    project: Project,
}

/// A session's changes, to be landed: nobody else works on the session meanwhile.
#[derive(Debug)]
pub struct Desk {
    looking: Looking,
    gate: Arc<Gate>,
    journal: Arc<Journal>,
    _held: Lock,
}

impl Looking {
    /// The session that `given` names, or the newest one of the project that the person is in.
    ///
    /// # Errors
    /// When there is none, or its project is gone.
    pub fn at(given: Option<&str>) -> Result<Self, CommandError> {
        let session = session::find(given)?;
        let project = Project::of(&session)?;
        Ok(Self { session, project })
    }

    /// The session.
    #[must_use]
    pub const fn session(&self) -> &Session {
        &self.session
    }

    /// Its project.
    #[must_use]
    pub const fn project(&self) -> &Project {
        &self.project
    }

    /// Both ends of the road back.
    #[must_use]
    pub fn site(&self) -> Site<'_> {
        Site::new(self.session.dir(), self.project.directory())
    }

    /// What would land of `paths`, or of everything.
    ///
    /// # Errors
    /// When the session or the project can not be read.
    pub fn plan(&self, paths: &[PathBuf]) -> Result<Plan, CommandError> {
        let labeler = self.labeler()?;
        let select = self.select(paths)?;
        let changes = session::changes(&self.session)?;
        Plan::new(&self.site(), changes, &select, &|path| labeler.labels(path)).map_err(failed)
    }

    /// Labels what commits bring beyond the files.
    ///
    /// # Errors
    /// When the repository can not be looked at.
    pub fn label(&self, frozen: &mut Frozen) -> Result<(), CommandError> {
        let labeler = self.labeler()?;
        frozen.label(&|path| labeler.labels(path));
        Ok(())
    }

    fn repository(&self) -> Result<Whereabouts, ServeError> {
        Whereabouts::of(&self.project).map_err(ServeError::Repository)
    }

    fn labeler(&self) -> Result<Labeler, ServeError> {
        let labeler = self.repository()?.labeler();
        labeler.map_err(|error| ServeError::Gate(error.into()))
    }

    /// Names that a person gave, as names in the project.
    pub(crate) fn select(&self, paths: &[PathBuf]) -> Result<Vec<RelPath>, CommandError> {
        paths.iter().map(|path| self.name(path)).collect()
    }

    /// A name that a person gave, as a name in the project: relative to where the person is, if that
    /// is in the project, else to the project.
    ///
    /// # Errors
    /// When it is not below the project.
    pub fn name(&self, path: &Path) -> Result<RelPath, CommandError> {
        let root = self.project.path();
        let here = std::env::current_dir().unwrap_or_default();
        let from = if here.starts_with(root) { &here } else { root };
        below(root, &from.join(path))
    }
}

impl Desk {
    /// Takes the session for a landing, after finishing or taking back what a crash interrupted.
    ///
    /// # Errors
    /// When the session is running, or can not be read.
    pub fn at(given: Option<&str>) -> Result<Self, CommandError> {
        Self::of(Looking::at(given)?)
    }

    /// As [`Desk::at`], for a session that has been found.
    ///
    /// # Errors
    /// As there.
    pub fn of(looking: Looking) -> Result<Self, CommandError> {
        let held = looking.session.claim()?;
        let journal = Arc::new(checkpoint::resume_journal(looking.session.dir())?);
        let own = Config::current()?.policy;
        let repository = looking.repository()?;
        let gate = gate::open(own.as_deref(), &repository, Arc::clone(&journal));
        let gate = gate.map_err(ServeError::from)?;
        settle(&looking.session, &looking.project)?;
        Ok(Self {
            looking,
            gate,
            journal,
            _held: held,
        })
    }

    /// The session's changes.
    #[must_use]
    pub const fn looking(&self) -> &Looking {
        &self.looking
    }

    /// The session's tree, without a mount.
    ///
    /// # Errors
    /// When it can not be opened.
    pub fn tree(&self) -> Result<Guard, CommandError> {
        let Looking { session, project } = &self.looking;
        let directory = project.directory().try_clone_to_owned();
        let directory =
            directory.map_err(|error| CommandError::io("opening the project", error))?;
        let relocations = positions::relocations(session)?;
        let gate = Arc::clone(&self.gate);
        let overlay = Overlay::open(directory, session.dir(), relocations, gate);
        let overlay = overlay.map_err(ServeError::from)?;
        let agent = session.record().agent.as_str().into();
        Ok(Guard::new(overlay, Arc::clone(&self.gate), agent))
    }

    /// Notes the session's tree as one that can be gone back to, if it has changed since it was
    /// last noted.
    ///
    /// # Errors
    /// When the tree can not be opened, or the journal not be written.
    pub fn put_aside(&self, cause: SnapshotCause) -> Result<(), CommandError> {
        let taken = self.tree()?.overlay().snapshot_changes(cause);
        Ok(taken.map(drop).map_err(ServeError::from)?)
    }

    /// The session's journal.
    #[must_use]
    pub fn journal(&self) -> &Journal {
        &self.journal
    }

    /// What would land of `paths`, or of everything, as the gate judges it.
    ///
    /// # Errors
    /// When the session or the project can not be read.
    pub fn plan(&self, paths: &[PathBuf]) -> Result<Plan, CommandError> {
        let mut plan = self.looking.plan(paths)?;
        let agent = self.looking.session.record().agent.as_str().into();
        plan.judge(&self.gate, &Actor { agent, pid: 0 });
        Ok(plan)
    }
}

/// Takes a landing of the session back that a crash interrupted, or finishes it when it had happened
/// already. Whoever goes on with a session or removes it does this first: its folder holds what the
/// landing displaced.
///
/// # Errors
/// When a record of the landing is damaged, or the file system refuses.
pub fn settle(session: &Session, project: &Project) -> Result<(), CommandError> {
    let site = Site::new(session.dir(), project.directory());
    let recovered = aegisfs::commit::recover(&site).map_err(failed)?;
    if recovered.taken_back > 0 {
        crate::cli::talk::say("a landing that was interrupted has been taken back");
    }
    Ok(())
}

/// The name of `path` below `root`, by its text alone.
fn below(root: &Path, path: &Path) -> Result<RelPath, CommandError> {
    use std::os::unix::ffi::OsStrExt as _;
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => drop(plain.pop()),
            other => plain.push(other),
        }
    }
    let inside = plain.strip_prefix(root).ok();
    inside
        .and_then(|inside| RelPath::parse(inside.as_os_str().as_bytes()).ok())
        .ok_or_else(|| {
            CommandError::told(
                &format!("`{}` is not in the project", shown(path)),
                format!("the project is `{}`", shown(root)),
                "name files below the project's folder",
            )
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_by_their_text() {
        let root = Path::new("/home/me/project");
        let name = |path: &str| below(root, Path::new(path)).map(|path| path.to_string());
        assert_eq!(name("/home/me/project/a/../b/./c").unwrap(), "b/c");
        assert_eq!(name("/home/me/project").unwrap(), ".");
        assert!(name("/home/me/project/../other").is_err());
        assert!(name("/etc/passwd").is_err());
    }
}
