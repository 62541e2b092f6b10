//! What an attacker inside tries, who has read the code: to reach a guarded name by another one.

use std::fs::{self, File, OpenOptions};
use std::io::ErrorKind::PermissionDenied;
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use aegis_policies::journal::{Event, NodeKind};
use rustix::fs::RenameFlags;

use super::bed::Bed;
use super::ops::root;
use super::tools::run;
use super::tree::fingerprint;

/// A repository with a secret, an agent's settings, and a submodule's directory.
fn victim() -> Bed {
    let bed = Bed::furnished();
    let project = bed.project();
    run(
        &project,
        "set up",
        "git init -q . && git add -A && git commit -qm one \
        && mkdir -p .git/modules/lib .aws .claude conf && echo '[core]' > .git/modules/lib/config \
        && echo KEY=1 > .env && echo KEY=1 > conf/.env && echo key > .aws/credentials \
        && echo '{}' > .claude/settings.json",
    );
    bed
}

#[track_caller]
fn refused<T: std::fmt::Debug>(result: io::Result<T>) {
    match result {
        Err(error) if error.kind() == PermissionDenied => {}
        other => panic!("not refused: {other:?}"),
    }
}

fn exchange(mnt: &Path, one: &str, other: &str) -> io::Result<()> {
    let root = root(mnt);
    Ok(rustix::fs::renameat_with(
        &root,
        one,
        &root,
        other,
        RenameFlags::EXCHANGE,
    )?)
}

#[test]
fn a_locked_name_can_not_be_changed() {
    let mut bed = victim();
    let host = fingerprint(&bed.project());
    let mnt = bed.mount();
    for name in [
        ".git/config",
        ".git/modules/lib/config",
        ".claude/settings.json",
    ] {
        let path = mnt.join(name);
        assert!(fs::read(&path).is_ok(), "{name}");
        refused(OpenOptions::new().append(true).open(&path));
        refused(OpenOptions::new().write(true).truncate(true).open(&path));
        refused(fs::set_permissions(
            &path,
            fs::Permissions::from_mode(0o777),
        ));
        refused(fs::remove_file(&path));
        refused(fs::rename(&path, mnt.join("innocent")));
        refused(fs::rename(mnt.join("x"), &path));
        refused(exchange(&mnt, "x", name));
        refused(fs::hard_link(&path, mnt.join("innocent")));
        let flags = rustix::fs::XattrFlags::empty();
        refused(
            Ok(rustix::fs::setxattr(&path, "user.a", b"b", flags).map_err(io::Error::from))
                .and_then(|set| set),
        );
    }
    assert_eq!(fingerprint(&bed.project()), host);
}

#[test]
fn a_locked_name_that_is_absent_can_not_be_made() {
    let mut bed = victim();
    let mnt = bed.mount();
    fs::remove_dir_all(bed.project().join(".git/hooks")).unwrap();
    for name in [
        ".git/commondir",
        ".git/info/attributes",
        ".git/objects/info/alternates",
    ] {
        let path = mnt.join(name);
        let _ = fs::create_dir_all(path.parent().unwrap());
        refused(File::create(&path));
        refused(fs::create_dir(&path));
        refused(symlink("../x", &path));
        refused(fs::hard_link(mnt.join("x"), &path));
        refused(fs::rename(mnt.join("x"), &path));
    }
    super::mounted::wait_until(|| !mnt.join(".git/hooks").exists());
    refused(fs::create_dir(mnt.join(".git/hooks")));
    refused(symlink("../d", mnt.join(".git/hooks")));
    refused(fs::rename(mnt.join("d"), mnt.join(".git/hooks")));
}

#[test]
fn a_lock_does_not_move_with_a_directory() {
    let mut bed = victim();
    let mnt = bed.mount();
    refused(fs::rename(mnt.join(".git"), mnt.join("g")));
    refused(fs::rename(mnt.join(".git"), mnt.join("d/.git")));
    refused(exchange(&mnt, ".git", "d"));
    refused(exchange(&mnt, "d", ".git"));
    refused(fs::rename(mnt.join(".git/modules"), mnt.join("m")));
    refused(fs::rename(mnt.join(".git/modules/lib"), mnt.join("lib")));
    refused(exchange(&mnt, ".git/modules/lib", "d"));
    refused(fs::rename(mnt.join(".claude"), mnt.join("c")));
}

#[test]
fn a_prepared_directory_can_not_take_a_guarded_place() {
    let mut bed = victim();
    let mnt = bed.mount();
    fs::create_dir_all(mnt.join("evil/hooks")).unwrap();
    fs::write(mnt.join("evil/config"), "[core]\nfsmonitor = ./x\n").unwrap();
    refused(fs::rename(mnt.join("evil"), mnt.join(".git/modules/evil")));
    refused(exchange(&mnt, "evil", ".git/modules/lib"));
    // Deeper: the directory that moves has an innocent name, and so has its place.
    fs::create_dir(mnt.join("outer")).unwrap();
    fs::rename(mnt.join("evil"), mnt.join("outer/evil")).unwrap();
    refused(fs::rename(
        mnt.join("outer"),
        mnt.join(".git/modules/lib/modules"),
    ));
    // A link among git's files leads git out of them, whatever it is called.
    fs::create_dir(mnt.join(".git/free")).unwrap();
    refused(symlink("../../outer/evil", mnt.join(".git/modules/evil")));
    symlink("outer/evil", mnt.join("link")).unwrap();
    refused(fs::rename(mnt.join("link"), mnt.join(".git/free/link")));
    refused(fs::hard_link(mnt.join("link"), mnt.join(".git/free/link")));
}

#[test]
fn case_and_folding_do_not_hide_a_lock() {
    let mut bed = victim();
    fs::write(bed.project().join(".ENV"), "KEY=1\n").unwrap();
    let mnt = bed.mount();
    for name in [".GIT", ".Git"] {
        refused(fs::create_dir(mnt.join(name)));
        refused(fs::rename(mnt.join("d"), mnt.join(name)));
    }
    refused(fs::rename(mnt.join("x"), mnt.join(".git/CONFIG")));
    refused(fs::read(mnt.join(".env")));
    refused(fs::read(mnt.join(".ENV")));
}

#[test]
fn a_symbolic_link_is_judged_by_where_it_leads() {
    let mut bed = victim();
    let mnt = bed.mount();
    symlink(".git/config", mnt.join("c")).unwrap();
    symlink(".env", mnt.join("e")).unwrap();
    symlink(".git", mnt.join("g")).unwrap();
    refused(OpenOptions::new().append(true).open(mnt.join("c")));
    refused(fs::read(mnt.join("e")));
    refused(fs::write(mnt.join("g/config"), "x"));
    refused(fs::write(mnt.join("g/hooks/pre-commit"), "x"));
}

#[test]
fn a_secret_is_a_secret_under_every_name() {
    let mut bed = victim();
    let host = bed.project();
    fs::hard_link(host.join(".env"), host.join("plain")).unwrap();
    let mnt = bed.mount();
    for name in [".env", "conf/.env", ".aws/credentials"] {
        let path = mnt.join(name);
        assert!(fs::symlink_metadata(&path).is_ok());
        refused(fs::read(&path));
        refused(fs::rename(&path, mnt.join("innocent")));
        refused(fs::hard_link(&path, mnt.join("innocent")));
        refused(exchange(&mnt, "x", name));
    }
    refused(fs::rename(mnt.join(".aws"), mnt.join("a2")));
    fs::rename(mnt.join("conf"), mnt.join("conf2")).unwrap();
    refused(fs::read(mnt.join("conf2/.env")));
    // The host's own second name, once the first has been seen.
    refused(fs::read(mnt.join("plain")));
    let (flags, mode) = (rustix::fs::OFlags::PATH, rustix::fs::Mode::empty());
    let path = rustix::fs::open(mnt.join(".env"), flags, mode).unwrap();
    refused(File::open(format!("/proc/self/fd/{}", path.as_raw_fd())));
}

/// Under the name of a secret there may be what the session itself wrote; never the host's.
#[test]
fn what_the_session_made_is_no_secret_to_it() {
    let mut bed = victim();
    let host = bed.project();
    fs::write(host.join(".env.example"), "KEY=\n").unwrap();
    let mnt = bed.mount();
    fs::copy(mnt.join(".env.example"), mnt.join("folder.env")).unwrap();
    fs::write(mnt.join("folder.env"), "KEY=mine\n").unwrap();
    assert_eq!(fs::read(mnt.join("folder.env")).unwrap(), b"KEY=mine\n");
    refused(fs::rename(mnt.join("folder.env"), mnt.join("innocent")));
    // Written over, it is the host's file still.
    fs::write(mnt.join(".env"), "KEY=mine\n").unwrap();
    refused(fs::read(mnt.join(".env")));
    // Made anew, it is the session's.
    fs::remove_file(mnt.join(".env")).unwrap();
    fs::write(mnt.join(".env"), "KEY=mine\n").unwrap();
    fs::write(host.join(".env"), "KEY=2\n").unwrap();
    assert_eq!(fs::read(mnt.join(".env")).unwrap(), b"KEY=mine\n");
    bed.remount();
    assert_eq!(fs::read(bed.mnt().join(".env")).unwrap(), b"KEY=mine\n");
    refused(fs::read(bed.mnt().join("conf/.env")));
}

/// The host has one inode under an innocent and under a locked name: a change through the one does
/// not show under the other.
#[test]
fn a_hard_link_of_the_host_does_not_open_a_lock() {
    let mut bed = victim();
    let host = bed.project();
    fs::hard_link(host.join(".git/config"), host.join("innocent")).unwrap();
    let before = fs::read(host.join(".git/config")).unwrap();
    let mnt = bed.mount();
    fs::write(mnt.join("innocent"), "[core]\nfsmonitor = ./x\n").unwrap();
    assert_eq!(fs::read(mnt.join(".git/config")).unwrap(), before);
    refused(
        OpenOptions::new()
            .append(true)
            .open(mnt.join(".git/config")),
    );
}

#[test]
fn a_handle_does_not_carry_a_write_to_a_guarded_place() {
    let mut bed = victim();
    let mnt = bed.mount();
    fs::create_dir(mnt.join("dir")).unwrap();
    let mut handle = File::create(mnt.join("dir/config")).unwrap();
    refused(fs::rename(mnt.join("dir"), mnt.join(".git/modules/dir")));
    refused(fs::rename(mnt.join("dir/config"), mnt.join(".git/config")));
    refused(fs::hard_link(
        mnt.join("dir/config"),
        mnt.join(".git/commondir"),
    ));
    handle.write_all(b"x").unwrap();
}

/// One thread makes a name that would be locked elsewhere while another moves its directory there.
#[test]
fn no_name_slips_in_between_judgement_and_move() {
    let mut bed = victim();
    let mnt = bed.mount();
    fs::create_dir(mnt.join("dir")).unwrap();
    let there = mnt.join(".git/modules/dir");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..3000 {
                let _ = File::create(mnt.join("dir/config"));
                let _ = fs::remove_file(mnt.join("dir/config"));
            }
        });
        for _ in 0..3000 {
            let moved = fs::rename(mnt.join("dir"), &there);
            assert!(!there.join("config").exists(), "{moved:?}");
            let _ = fs::rename(&there, mnt.join("dir"));
        }
    });
}

#[test]
fn refusals_and_reads_are_on_record() {
    let mut bed = victim();
    let mnt = bed.mount();
    refused(fs::read(mnt.join(".env")));
    for _ in 0..3 {
        fs::read(mnt.join("x")).unwrap();
    }
    fs::write(mnt.join("made"), "12345").unwrap();
    bed.unmount();
    let mut seen = [0; 4];
    for entry in aegis_policies::journal::read(&bed.session().journal()).unwrap() {
        match entry.unwrap().1.event {
            Event::Refused { .. } => seen[0] += 1,
            Event::Read { path } if path.as_bytes() == b"x" => seen[1] += 1,
            Event::Written {
                path,
                bytes: 5,
                size: 5,
            } if path.as_bytes() == b"made" => seen[2] += 1,
            Event::Shadow(aegis_policies::journal::ShadowOp::Create { kind, .. }) => {
                assert_eq!(kind, NodeKind::File);
                seen[3] += 1;
            }
            _ => {}
        }
    }
    assert_eq!(seen, [1, 1, 1, 1]);
}
