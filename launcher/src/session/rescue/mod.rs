//! What can be saved of a session whose record is damaged, and saving it.

mod look;

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use aegis_policies::RelPath;
use aegis_policies::journal::NodeKind;
use aegisfs::overlay::changes::After;
use aegisfs::overlay::salvage::{Salvage, Saved, State, salvage};
use rustix::fs::{CWD, Mode, OFlags, fchmod, mkdirat, mknodat, openat, symlinkat};
use rustix::io::Errno;

pub use look::Looking;

use super::lock::Lock;
use super::project::Project;
use super::serve::ServeError;
use super::view::is_empty;
use super::{Session, SessionError, positions};
use crate::error::CommandError;

const DIRECTORY: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// A session that nobody serves, and what is left of it.
#[derive(Debug)]
pub struct Rescue {
    session: Session,
    project: Project,
    salvage: Salvage,
    files: Vec<Saved>,
    held: Lock,
}

/// What was copied.
#[derive(Debug, Default)]
pub struct Kept {
    /// Names that are there now.
    pub saved: u64,
    /// Names that the session removed or moved away; there is nothing to copy.
    pub removed: u64,
    /// Names that are not there, or not whole, and why.
    pub missing: Vec<(RelPath, String)>,
}

impl Rescue {
    /// Finds out what is left.
    ///
    /// # Errors
    /// When the session is running, has no journal at all, or its project is gone.
    pub fn begin(session: Session) -> Result<Self, CommandError> {
        let held = session.claim()?;
        let project = Project::of(&session)?;
        let relocations = positions::relocations(&session)?;
        let salvage = salvage(session.dir(), relocations).map_err(ServeError::from)?;
        let files = salvage.files(session.dir(), project.directory());
        Ok(Self {
            files: files.map_err(ServeError::from)?,
            session,
            project,
            salvage,
            held,
        })
    }

    /// The session.
    #[must_use]
    pub const fn session(&self) -> &Session {
        &self.session
    }

    /// What of its record can be used.
    #[must_use]
    pub const fn salvage(&self) -> &Salvage {
        &self.salvage
    }

    /// The names that it changed.
    #[must_use]
    pub fn files(&self) -> &[Saved] {
        &self.files
    }

    /// Copies what the session made or changed into an empty folder.
    ///
    /// # Errors
    /// When the folder is not empty or can not be made.
    pub fn copy_into(&self, folder: &Path) -> Result<Kept, CommandError> {
        let target = empty_folder(folder).map_err(SessionError::io("writing to", folder))?;
        let mut kept = Kept::default();
        for saved in &self.files {
            let path = &saved.change.path;
            let Some(after) = &saved.change.after else {
                kept.removed += 1;
                continue;
            };
            match self.copy(&target, path, after) {
                Err(error) => kept.missing.push((path.clone(), error.to_string())),
                Ok(()) if matches!(saved.state, State::Torn) => {
                    kept.missing
                        .push((path.clone(), "a part of it is lost".to_owned()));
                }
                Ok(()) => kept.saved += 1,
            }
        }
        Ok(kept)
    }

    fn copy(&self, target: &OwnedFd, path: &RelPath, after: &After) -> io::Result<()> {
        let Some((parent, name)) = path.split_last() else {
            return Ok(());
        };
        let parent = folders(target, &parent)?;
        match &after.kind {
            NodeKind::Directory => make_folder(&parent, name).map(drop),
            NodeKind::Symlink(text) => Ok(symlinkat(text.as_slice(), &parent, name)?),
            NodeKind::Fifo => {
                let kind = rustix::fs::FileType::Fifo;
                Ok(mknodat(&parent, name, kind, Mode::RUSR | Mode::WUSR, 0)?)
            }
            NodeKind::File => {
                let content = after.content.as_ref().ok_or(Errno::NOENT)?;
                let mut source = self.salvage.open(content, self.project.directory())?;
                let flags = OFlags::WRONLY
                    | OFlags::CREATE
                    | OFlags::EXCL
                    | OFlags::NOFOLLOW
                    | OFlags::CLOEXEC;
                let file = openat(&parent, name, flags, Mode::RUSR | Mode::WUSR)?;
                let mut file = File::from(file);
                io::copy(&mut source, &mut file)?;
                // Not the set-id bits: what is saved is data, and nobody has approved it.
                fchmod(&file, Mode::from_raw_mode(after.mode & 0o777))?;
                Ok(())
            }
            _ => Err(io::Error::other("sockets and devices hold nothing to copy")),
        }
    }
}

/// The folder at `path`, made when it is not there.
fn empty_folder(path: &Path) -> io::Result<OwnedFd> {
    match mkdirat(CWD, path, Mode::RWXU) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(errno) => return Err(errno.into()),
    }
    let folder = openat(CWD, path, DIRECTORY & !OFlags::NOFOLLOW, Mode::empty())?;
    if is_empty(&folder)? {
        Ok(folder)
    } else {
        Err(io::Error::other("it is not empty"))
    }
}

/// The folder `path` beneath `target`, made with those above it; no link is followed.
fn folders(target: &OwnedFd, path: &RelPath) -> io::Result<OwnedFd> {
    let target = target.try_clone()?;
    path.components()
        .try_fold(target, |parent, name| make_folder(&parent, name))
}

fn make_folder(parent: &OwnedFd, name: &[u8]) -> io::Result<OwnedFd> {
    match mkdirat(parent, name, Mode::from_raw_mode(0o755)) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(errno) => return Err(errno.into()),
    }
    Ok(openat(parent, name, DIRECTORY, Mode::empty())?)
}
