//! The same as an ordinary user: in a user and mount namespace of its own, and through fusermount3.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use aegisfs::fuse;
use aegisfs::layout::SessionDir;

use super::bed::{furnish, guard, options};
use super::semantics::{PROGRAMS, run_in};
use super::tools::{WORK, run};
use super::tree::{dump, fingerprint};

/// Made by the suite's set-up.
const USER: &str = "aegis-test";

const NAMESPACE: &[&str] = &[
    "unshare",
    "--user",
    "--map-current-user",
    "--keep-caps",
    "--mount",
];

#[test]
fn works_in_a_namespace_of_its_own() {
    as_user("namespace", "works", NAMESPACE);
}

#[test]
fn works_through_fusermount3() {
    as_user("fusermount3", "works", &[]);
}

/// What `semantics` runs as root.
#[test]
fn finds_the_same_in_a_namespace_of_its_own() {
    as_user("namespace", "finds_the_same", NAMESPACE);
}

#[test]
fn finds_the_same_through_fusermount3() {
    as_user("fusermount3", "finds_the_same", &[]);
}

/// Runs a test of [`inside`] as the ordinary user.
fn as_user(how: &str, what: &str, wrapper: &[&str]) {
    let id = Command::new("id").args(["-u", USER]).output().unwrap();
    let uid: u32 = String::from_utf8(id.stdout)
        .unwrap()
        .trim()
        .parse()
        .unwrap();
    let home = tempfile::tempdir().unwrap();
    fs::set_permissions(home.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let binary = home.path().join("tests");
    fs::copy("/proc/self/exe", &binary).unwrap();
    let status = {
        let work = home.path().join("work");
        fs::create_dir(&work).unwrap();
        chown(&work, Some(uid), Some(uid)).unwrap();
        let mut command = Command::new("runuser");
        command.args(["-u", USER, "--"]).args(wrapper).arg(&binary);
        let test = format!("overlay::user::inside::{what}");
        command.args([&test, "--exact", "--ignored", "--nocapture"]);
        command
            .env("AEGISFS_WORK", &work)
            .env("AEGISFS_HOW", how)
            .current_dir(home.path());
        command.output().unwrap()
    };
    let text = String::from_utf8_lossy(&status.stderr).into_owned();
    assert!(
        status.status.success() && text.contains("INSIDE"),
        "{how}: {text}"
    );
}

mod inside {
    use super::*;

    #[test]
    #[ignore = "started by other tests as an ordinary user"]
    fn works() {
        for (name, script) in WORK {
            on_a_mount(name, |model, mnt| {
                run(model, name, script);
                run(mnt, name, script);
                assert_eq!(dump(mnt), dump(model), "{name}");
                unreadable_stays_unreadable(mnt, in_a_namespace());
            });
        }
        eprintln!("INSIDE: {} kinds of work", WORK.len());
    }

    #[test]
    #[ignore = "started by other tests as an ordinary user"]
    fn finds_the_same() {
        for (name, program) in PROGRAMS {
            on_a_mount(name, |model, mnt| {
                let [expected, found] = [model, mnt].map(|at| run_in(at, program, &[]));
                assert_eq!(found, expected, "{name}");
            });
        }
        eprintln!("INSIDE: {} programs", PROGRAMS.len());
    }
}

fn in_a_namespace() -> bool {
    std::env::var("AEGISFS_HOW").unwrap() == "namespace"
}

/// Does something in a plain directory and on a mount of its like, which must not change the host's.
fn on_a_mount(name: &str, work: impl Fn(&Path, &Path)) {
    let place = PathBuf::from(std::env::var_os("AEGISFS_WORK").unwrap()).join(name);
    let path = |part: &str| place.join(part);
    fs::create_dir(&place).unwrap();
    for part in ["project", "model", "session", "session/journal", "mnt"] {
        fs::create_dir(path(part)).unwrap();
    }
    furnish(&path("project"));
    furnish(&path("model"));
    let host = fingerprint(&path("project"));
    let guard = guard(&path("project"), &SessionDir::new(path("session")));
    let served = if in_a_namespace() {
        let connection = fuse::mount_in_namespace(&path("mnt"), options()).unwrap();
        fuse::serve(connection, Arc::new(guard), options()).unwrap()
    } else {
        fuse::mount(&path("mnt"), Arc::new(guard), options()).unwrap()
    };
    work(&path("model"), &path("mnt"));
    assert_eq!(fingerprint(&path("project")), host, "{place:?}");
    if in_a_namespace() {
        rustix::mount::unmount(path("mnt"), rustix::mount::UnmountFlags::empty()).unwrap();
        served.wait().unwrap();
    } else {
        served.unmount().unwrap();
    }
}

/// The owner of a file without permissions can not read it; in the namespace the test itself keeps
/// the capability that overrides this.
fn unreadable_stays_unreadable(mnt: &Path, capable: bool) {
    let file = mnt.join("unreadable");
    fs::write(&file, "x").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o0)).unwrap();
    assert_eq!(fs::read(&file).is_ok(), capable);
}
