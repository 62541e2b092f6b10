//! Which directory is the project, and whether it may be one.

mod error;
mod kinds;

use std::env;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use aegis_policies::path::escape;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, StatxFlags, fstat, openat, statx};

pub use error::ProjectError;

use super::Session;
use super::home::{real_path, user_homes};
use super::mounts;

/// The real project: a directory, open, with its path free of links.
#[derive(Debug)]
pub struct Project {
    path: PathBuf,
    directory: OwnedFd,
    device: u64,
    inode: u64,
}

impl Project {
    /// The project that the current directory is in: the nearest directory upwards that has `.git`
    /// and may be a project, else the current directory itself.
    ///
    /// # Errors
    /// [`ProjectError`] when that directory can not be a project.
    pub fn around(here: &Path) -> Result<Self, ProjectError> {
        // A home directory that is a repository (of dotfiles) is not what a person means who works
        // in a folder below it.
        let root = here
            .ancestors()
            .filter(|path| too_wide(path).is_none())
            .find(|path| path.join(".git").symlink_metadata().is_ok());
        Self::at(root.unwrap_or(here))
    }

    /// The project at `path`.
    ///
    /// # Errors
    /// [`ProjectError`] when it can not be a project.
    pub fn at(path: &Path) -> Result<Self, ProjectError> {
        if let Some(session) = outer_session() {
            return Err(ProjectError::Nested(session));
        }
        let unreachable = |source| ProjectError::Unreachable {
            path: path.to_owned(),
            source,
        };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory =
            openat(CWD, path, flags, Mode::empty()).map_err(|errno| unreachable(errno.into()))?;
        let status = fstat(&directory).map_err(|errno| unreachable(errno.into()))?;
        let path = real_path(directory.as_fd()).map_err(unreachable)?;
        let project = Self {
            path,
            directory,
            device: status.st_dev,
            inode: status.st_ino,
        };
        project.check_width()?;
        project.check_file_system()?;
        Ok(project)
    }

    /// The project that `session` was made for, found to be the same directory still.
    ///
    /// # Errors
    /// [`ProjectError::Replaced`] when another directory has taken its place.
    pub fn of(session: &Session) -> Result<Self, ProjectError> {
        let project = Self::at(session.project())?;
        let record = session.record();
        if project.path != session.project()
            || project.identity() != (record.project_dev, record.project_ino)
        {
            return Err(ProjectError::Replaced {
                path: session.project().to_owned(),
            });
        }
        Ok(project)
    }

    /// The path, free of links.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The directory, open for reading.
    #[must_use]
    pub fn directory(&self) -> BorrowedFd<'_> {
        self.directory.as_fd()
    }

    /// `st_dev` and `st_ino` of the directory.
    #[must_use]
    pub const fn identity(&self) -> (u64, u64) {
        (self.device, self.inode)
    }

    /// Checks that neither the project nor the session folder `home` holds the other.
    ///
    /// # Errors
    /// [`ProjectError::InSessions`] or [`ProjectError::HoldsSessions`].
    pub fn check_apart(&self, home: &Path) -> Result<(), ProjectError> {
        let (path, home) = (self.path.clone(), home.to_owned());
        if path.starts_with(&home) {
            return Err(ProjectError::InSessions { path, home });
        }
        if home.starts_with(&path) {
            return Err(ProjectError::HoldsSessions { path, home });
        }
        Ok(())
    }

    fn check_width(&self) -> Result<(), ProjectError> {
        let path = self.path.clone();
        too_wide(&self.path).map_or(Ok(()), |why| Err(ProjectError::TooWide { path, why }))
    }

    fn check_file_system(&self) -> Result<(), ProjectError> {
        let Some(kind) = self.file_system() else {
            return Ok(());
        };
        let path = self.path.clone();
        kinds::refusal(&kind).map_or(Ok(()), |why| {
            Err(ProjectError::FileSystem {
                path,
                kind: kind.clone(),
                why,
            })
        })
    }

    /// The type of the file system; `None` where the mount is out of sight, as in a chroot.
    fn file_system(&self) -> Option<String> {
        let found = statx(
            &self.directory,
            c"",
            AtFlags::EMPTY_PATH,
            StatxFlags::MNT_ID,
        )
        .ok()?;
        let mounts = mounts::all().ok()?;
        mounts
            .into_iter()
            .find(|mount| mount.id == found.stx_mnt_id)
            .map(|mount| mount.kind)
    }
}

/// The session that this process runs in; the sandbox alone has the launcher under this path.
fn outer_session() -> Option<String> {
    let is_inside = Path::new("/aegis/bin/aegis-os").symlink_metadata().is_ok();
    let session = env::var_os("AEGIS_SESSION").filter(|_| is_inside)?;
    Some(escape(session.as_bytes()))
}

/// The current directory, free of links.
///
/// # Errors
/// [`ProjectError::NoCurrentDirectory`] when it was removed.
pub fn current_directory() -> Result<PathBuf, ProjectError> {
    env::current_dir().map_err(ProjectError::NoCurrentDirectory)
}

/// Why `path` holds too much; `None` when it does not.
fn too_wide(path: &Path) -> Option<&'static str> {
    if path.parent().is_none() {
        return Some("it is the whole file system");
    }
    user_homes()
        .into_iter()
        .find_map(|home| too_wide_for(path, home))
}

fn too_wide_for(path: &Path, home: PathBuf) -> Option<&'static str> {
    let real = openat(CWD, &home, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
        .ok()
        .and_then(|directory| real_path(directory.as_fd()).ok())
        .unwrap_or(home);
    if real == path {
        return Some("it is your home directory, with your keys and settings");
    }
    real.starts_with(path)
        .then_some("it holds your home directory, with your keys and settings")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_root_and_kernel_file_systems_are_no_projects() {
        assert!(matches!(
            Project::at(Path::new("/")),
            Err(ProjectError::TooWide { .. })
        ));
        let refused = Project::at(Path::new("/proc/self/task")).unwrap_err();
        assert!(
            matches!(&refused, ProjectError::FileSystem { kind, .. } if kind == "proc"),
            "{refused}"
        );
    }

    #[test]
    fn the_nearest_repository_is_the_project() {
        let place = tempfile::tempdir().unwrap();
        let inner = place.path().join("repository/source/deep");
        std::fs::create_dir_all(&inner).unwrap();
        assert_eq!(Project::around(&inner).unwrap().path(), inner);
        std::fs::create_dir(place.path().join("repository/.git")).unwrap();
        assert_eq!(
            Project::around(&inner).unwrap().path(),
            place.path().join("repository")
        );
    }

    #[test]
    fn project_and_session_folder_lie_apart() {
        let place = tempfile::tempdir().unwrap();
        let project = Project::at(place.path()).unwrap();
        assert!(project.check_apart(&place.path().join("in")).is_err());
        assert!(project.check_apart(place.path().parent().unwrap()).is_err());
        assert!(project.check_apart(Path::new("/elsewhere")).is_ok());
    }
}
