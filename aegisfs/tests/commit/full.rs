//! A full disk, on either side: nothing lands in part, and the next try works.

use std::fs;
use std::path::{Path, PathBuf};

use aegisfs::commit::CommitError;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use tempfile::TempDir;

use super::env::{Env, tree, write};

/// A file system of a mebibyte; none for those who may not mount.
struct Small(PathBuf);

impl Small {
    fn at(path: &Path) -> Option<Self> {
        fs::create_dir_all(path).unwrap();
        let options = Some(c"size=1m");
        mount("tmpfs", path, "tmpfs", MountFlags::empty(), options).ok()?;
        Some(Self(path.to_owned()))
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _gone = unmount(&self.0, UnmountFlags::DETACH);
    }
}

#[test]
fn a_full_project_is_as_it_was() {
    let temp = TempDir::new().unwrap();
    let project = temp.path().join("project");
    let Some(_small) = Small::at(&project) else {
        return;
    };
    write(&project.join("kept"), "kept\n");
    let env = Env::on(temp, project);
    let before = env.host();
    write(&env.agent.join("a"), "small\n");
    write(&env.agent.join("kept"), "changed\n");
    write(&env.agent.join("large"), vec![1; 2 << 20]);
    let error = env.try_land().unwrap_err();
    assert!(matches!(error, CommitError::Io { .. }), "{error}");
    assert_eq!(env.host(), before);
    write(&env.agent.join("large"), "not any more\n");
    assert_eq!(env.land().left().count(), 0);
    assert_eq!(env.host(), tree(&env.agent));
}

#[test]
fn a_full_session_lands_nothing() {
    let temp = TempDir::new().unwrap();
    let project = temp.path().join("project");
    fs::create_dir(&project).unwrap();
    write(&project.join("kept"), "kept\n");
    let Some(_small) = Small::at(&temp.path().join("home/sessions/one/stage")) else {
        return;
    };
    let env = Env::on(temp, project);
    let before = env.host();
    write(&env.agent.join("a"), "small\n");
    write(&env.agent.join("large"), vec![1; 2 << 20]);
    let error = env.plan().freeze(&env.site()).unwrap_err();
    assert!(matches!(error, CommitError::Io { .. }), "{error}");
    assert_eq!(env.host(), before);
}

/// The landing has happened when its record is there; what it displaced is put away later.
#[test]
fn what_can_not_be_put_away_now_is_put_away_later() {
    let temp = TempDir::new().unwrap();
    let project = temp.path().join("project");
    fs::create_dir(&project).unwrap();
    write(&project.join("large"), vec![2; 2 << 20]);
    let Some(small) = Small::at(&temp.path().join("home/sessions/one/landings")) else {
        return;
    };
    let env = Env::on(temp, project);
    let before = env.host();
    write(&env.agent.join("large"), "small\n");
    let landed = env.land();
    assert_eq!(landed.changed(), 1);
    assert_eq!(landed.unfinished.len(), 1, "{landed:?}");
    rustix::mount::mount_remount(&small.0, MountFlags::empty(), c"size=8m").unwrap();
    aegisfs::commit::recover(&env.site()).unwrap();
    assert_eq!(env.host(), tree(&env.agent), "nothing is left beside it");
    let reversal = aegisfs::commit::Reversal::find(&env.site(), None).unwrap();
    assert_eq!(reversal.apply(&env.site(), None).unwrap().left().count(), 0);
    assert_eq!(env.host(), before);
}
