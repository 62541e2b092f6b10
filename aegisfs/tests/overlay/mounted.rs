//! What a mount shows.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::bed::{Bed, furnish};
use super::ops;
use super::soak::soak;
use super::tree::{dump, fingerprint};

proptest! {
    #![proptest_config(ProptestConfig { cases: soak(24), failure_persistence: None, ..Default::default() })]

    #[test]
    fn ends_as_a_plain_directory_does(
        before in proptest::collection::vec(ops::operation(), 1..60),
        after in proptest::collection::vec(ops::operation(), 0..40),
    ) {
        let mut bed = Bed::furnished();
        let model = bed.root().join("model");
        fs::create_dir(&model).unwrap();
        furnish(&model);
        let host = fingerprint(&bed.project());
        for ops in [&before, &after] {
            let mounted = ops::root(&bed.mount());
            let plain = ops::root(&model);
            for op in ops {
                prop_assert_eq!(ops::run(&mounted, op), ops::run(&plain, op), "{:?}", op);
            }
            drop(mounted);
            prop_assert_eq!(dump(&bed.mnt()), dump(&model));
            bed.unmount();
        }
        bed.mount();
        prop_assert_eq!(dump(&bed.mnt()), dump(&model), "replayed");
        prop_assert_eq!(fingerprint(&bed.project()), host, "the host's tree changed");
    }
}

#[test]
fn an_early_descriptor_sees_later_writes() {
    let mut bed = Bed::furnished();
    let path = bed.mount().join("a/x");
    let mut early = File::open(&path).unwrap();
    let late = OpenOptions::new().write(true).open(&path).unwrap();
    let number = fs::metadata(&path).unwrap().ino();
    late.write_at(b"AGENT", 0).unwrap();
    let mut seen = String::new();
    early.read_to_string(&mut seen).unwrap();
    assert!(seen.starts_with("AGENT"), "{seen}");
    assert_eq!(fs::metadata(&path).unwrap().ino(), number);
    assert_eq!(
        number,
        fs::metadata(bed.project().join("a/x")).unwrap().ino()
    );
    drop((early, late));
    bed.remount();
    assert_eq!(fs::metadata(&path).unwrap().ino(), number);
}

#[test]
fn opening_for_writing_copies_nothing() {
    let mut bed = Bed::furnished();
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .open(bed.mount().join("x"))
        .unwrap();
    assert_eq!(fs::read_dir(bed.session().content()).unwrap().count(), 0);
    file.write_at(b"!", 0).unwrap();
    assert_eq!(fs::read_dir(bed.session().content()).unwrap().count(), 1);
    assert_eq!(fs::read_dir(bed.session().base()).unwrap().count(), 1);
}

#[test]
fn an_unlinked_file_lives_while_it_is_open() {
    let mut bed = Bed::furnished();
    let mnt = bed.mount();
    for name in ["a/x", "made"] {
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(mnt.join(name))
            .unwrap();
        fs::remove_file(mnt.join(name)).unwrap();
        file.write_all(b"still here").unwrap();
        file.set_len(5).unwrap();
        file.set_permissions(fs::Permissions::from_mode(0o640))
            .unwrap();
        file.seek(SeekFrom::Start(0)).unwrap();
        let mut text = String::new();
        file.read_to_string(&mut text).unwrap();
        assert_eq!(text, "still");
        let meta = file.metadata().unwrap();
        assert_eq!((meta.nlink(), meta.mode() & 0o777), (0, 0o640));
    }
    wait_until(|| fs::read_dir(bed.session().content()).unwrap().count() == 0);
    bed.remount();
    assert!(!mnt.join("a/x").exists() && !mnt.join("made").exists());
    assert!(bed.project().join("a/x").exists());
}

#[test]
fn the_host_is_followed_where_the_session_did_not_go() {
    let mut bed = Bed::furnished();
    let mnt = bed.mount();
    let host = bed.project();
    assert!(!mnt.join("new").exists());
    fs::write(mnt.join("x"), "mine").unwrap();
    for (name, text) in [("x", "theirs"), ("a/y", "theirs as well"), ("new", "new")] {
        fs::write(host.join(name), text).unwrap();
    }
    fs::write(host.join("swap"), "swapped").unwrap();
    fs::rename(host.join("swap"), host.join("d/z")).unwrap();
    let shown = |name: &str| fs::read_to_string(mnt.join(name)).unwrap_or_default();
    wait_until(|| shown("a/y") == "theirs as well" && shown("new") == "new");
    wait_until(|| shown("d/z") == "swapped");
    assert_eq!(shown("x"), "mine");
    fs::remove_dir_all(host.join("a")).unwrap();
    wait_until(|| !mnt.join("a").exists());
}

#[test]
fn what_the_session_put_into_a_directory_outlives_the_directory() {
    let mut bed = Bed::furnished();
    let mnt = bed.mount();
    fs::write(mnt.join("a/b/own"), "own").unwrap();
    fs::remove_dir_all(bed.project().join("a")).unwrap();
    wait_until(|| !mnt.join("a/x").exists());
    assert_eq!(fs::read_to_string(mnt.join("a/b/own")).unwrap(), "own");
    bed.remount();
    assert_eq!(fs::read_to_string(mnt.join("a/b/own")).unwrap(), "own");
    let names: Vec<_> = fs::read_dir(mnt.join("a"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(names, ["b"]);
}

#[test]
fn a_removed_name_shows_again_only_when_the_host_never_had_it() {
    let mut bed = Bed::furnished();
    let mnt = bed.mount();
    fs::write(mnt.join("own"), "own").unwrap();
    fs::remove_file(mnt.join("own")).unwrap();
    fs::remove_file(mnt.join("x")).unwrap();
    fs::write(bed.project().join("own"), "the host's").unwrap();
    fs::write(bed.project().join("x"), "again").unwrap();
    wait_until(|| mnt.join("own").exists());
    assert!(!mnt.join("x").exists());
}

#[test]
fn names_are_bytes() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let mut bed = Bed::furnished();
    let mnt = bed.mount();
    for name in [
        &b"\xff\xfe"[..],
        b"new\nline",
        "\u{202e}x".as_bytes(),
        &[b'n'; 255],
    ] {
        let name = OsStr::from_bytes(name);
        fs::write(mnt.join(name), "x").unwrap();
        bed.remount();
        assert_eq!(fs::read(mnt.join(name)).unwrap(), b"x");
    }
    assert!(fs::write(mnt.join("n".repeat(256)), "x").is_err());
}

#[test]
fn holes_stay_holes_and_big_files_stay_right() {
    let mut bed = Bed::new();
    let host = File::create(bed.project().join("big")).unwrap();
    host.set_len(64 << 20).unwrap();
    host.write_at(b"middle", 32 << 20).unwrap();
    drop(host);
    let path = bed.mount().join("big");
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .open(&path)
        .unwrap();
    file.write_at(b"end", (64 << 20) - 3).unwrap();
    let mut text = [0; 6];
    file.read_exact_at(&mut text, 32 << 20).unwrap();
    assert_eq!(&text, b"middle");
    let meta = file.metadata().unwrap();
    assert_eq!(meta.len(), 64 << 20);
    assert!(meta.blocks() * 512 < 1 << 17, "{} blocks", meta.blocks());
    // Too large to be merged: only its hash is kept.
    assert_eq!(fs::read_dir(bed.session().base()).unwrap().count(), 0);
}

#[test]
fn permissions_are_those_of_a_plain_directory() {
    let mut bed = Bed::furnished();
    let mnt = bed.mount();
    fs::set_permissions(mnt.join("a/x"), fs::Permissions::from_mode(0o600)).unwrap();
    fs::write(mnt.join("mine"), "mine").unwrap();
    fs::set_permissions(mnt.join("mine"), fs::Permissions::from_mode(0o0)).unwrap();
    fs::set_permissions(bed.root(), fs::Permissions::from_mode(0o755)).unwrap();
    let denied = |name: &str| {
        let status = std::process::Command::new("setpriv")
            .args(["--reuid=65534", "--regid=65534", "--clear-groups", "cat"])
            .arg(mnt.join(name))
            .output();
        !status.unwrap().status.success()
    };
    assert!(denied("a/x") && denied("mine"));
    assert!(!denied("a/y"));
    fs::set_permissions(mnt.join("a"), fs::Permissions::from_mode(0o700)).unwrap();
    assert!(denied("a/y"));
}

/// As on a plain directory: writing, truncating and changing the owner take the bits away, for
/// everybody but root.
#[test]
fn set_id_bits_go_when_somebody_else_writes() {
    let mut bed = Bed::new();
    let plain = bed.root().join("plain");
    fs::create_dir(&plain).unwrap();
    let mnt = bed.mount();
    fs::set_permissions(bed.root(), fs::Permissions::from_mode(0o755)).unwrap();
    let modes = |directory: &Path| -> Vec<u32> {
        let script = "for f in w t c r; do echo x > $f; chmod 6777 $f; done; cp -p w k; chmod 6767 k; \
            setpriv --reuid=65534 --regid=65534 --clear-groups sh -c 'echo y >> w; : > t; echo y >> k'; \
            chown 5 c; echo y >> r";
        super::tools::run(directory, "set-id", script);
        let mode = |name| fs::metadata(directory.join(name)).unwrap().mode() & 0o7777;
        ["w", "t", "c", "r", "k"].map(mode).to_vec()
    };
    assert_eq!(modes(&mnt), modes(&plain));
}

#[test]
fn set_group_id_directories_hand_their_group_on() {
    let mut bed = Bed::new();
    let mnt = bed.mount();
    fs::create_dir(mnt.join("g")).unwrap();
    std::os::unix::fs::chown(mnt.join("g"), None, Some(1234)).unwrap();
    fs::set_permissions(mnt.join("g"), fs::Permissions::from_mode(0o2775)).unwrap();
    fs::create_dir(mnt.join("g/h")).unwrap();
    fs::write(mnt.join("g/f"), "").unwrap();
    let meta = fs::metadata(mnt.join("g/h")).unwrap();
    assert_eq!((meta.gid(), meta.mode() & 0o2000), (1234, 0o2000));
    assert_eq!(fs::metadata(mnt.join("g/f")).unwrap().gid(), 1234);
}

#[test]
fn times_and_attributes_survive() {
    let mut bed = Bed::furnished();
    let mnt = bed.mount();
    let old = std::time::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    let times = fs::FileTimes::new().set_modified(old).set_accessed(old);
    fs::write(mnt.join("made"), "x").unwrap();
    for name in ["x", "made", "d"] {
        File::open(mnt.join(name))
            .unwrap()
            .set_times(times)
            .unwrap();
        rustix::fs::setxattr(
            mnt.join(name),
            "user.k",
            b"v",
            rustix::fs::XattrFlags::empty(),
        )
        .unwrap();
    }
    bed.remount();
    for name in ["x", "made", "d"] {
        assert_eq!(
            fs::metadata(mnt.join(name)).unwrap().modified().unwrap(),
            old,
            "{name}"
        );
        let mut value = [0; 8];
        let length = rustix::fs::getxattr(mnt.join(name), "user.k", &mut value).unwrap();
        assert_eq!(&value[..length], b"v", "{name}");
        let set = rustix::fs::setxattr(
            mnt.join(name),
            "security.k",
            b"v",
            rustix::fs::XattrFlags::empty(),
        );
        assert!(set.is_err());
    }
    assert_eq!(
        fs::read_dir(bed.session().content()).unwrap().count(),
        1,
        "nothing was copied up"
    );
}

#[test]
fn a_directory_moves_with_one_record() {
    let mut bed = Bed::furnished();
    let mnt = bed.mount();
    let size = || -> u64 {
        let journal = fs::read_dir(bed.session().journal()).unwrap();
        journal
            .map(|entry| entry.unwrap().metadata().unwrap().len())
            .sum()
    };
    let before = size();
    fs::rename(mnt.join("a"), mnt.join("moved")).unwrap();
    assert!(size() - before < 1024, "{} bytes", size() - before);
    assert_eq!(
        fs::read(mnt.join("moved/b/x")).unwrap(),
        fs::read(bed.project().join("a/b/x")).unwrap()
    );
    fs::write(bed.project().join("a/late"), "late").unwrap();
    wait_until(|| mnt.join("moved/late").exists());
}

/// Files of another device can have the numbers of files here; each is still one file.
#[test]
fn a_mount_inside_the_project_is_crossed() {
    use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
    let mut bed = Bed::furnished();
    let volume = bed.project().join("volume");
    fs::create_dir(&volume).unwrap();
    mount(
        "tmpfs",
        &volume,
        "tmpfs",
        MountFlags::empty(),
        Some(c"size=1m"),
    )
    .unwrap();
    for number in 0..50 {
        fs::write(volume.join(number.to_string()), number.to_string()).unwrap();
    }
    let mnt = bed.mount();
    for round in 0..3 {
        fs::write(mnt.join(format!("made-{round}")), "made").unwrap();
        fs::write(mnt.join(format!("volume/{round}")), "written").unwrap();
        fs::rename(
            mnt.join(format!("volume/{}", 10 + round)),
            mnt.join(format!("moved-{round}")),
        )
        .unwrap();
        let mut numbers = std::collections::BTreeMap::new();
        for name in dump(&mnt).into_keys().filter(|name| name != "d/linked") {
            let number = fs::symlink_metadata(mnt.join(&name)).unwrap().ino();
            assert_eq!(numbers.insert(number, name.clone()), None, "{name}");
        }
        bed.remount();
        assert_eq!(
            fs::read_to_string(mnt.join(format!("volume/{round}"))).unwrap(),
            "written"
        );
        let moved = fs::read_to_string(mnt.join(format!("moved-{round}"))).unwrap();
        assert_eq!(moved, (10 + round).to_string());
    }
    bed.unmount();
    unmount(&volume, UnmountFlags::DETACH).unwrap();
}

/// A shell whose directory is removed under it.
#[test]
fn a_removed_directory_is_empty_and_takes_nothing() {
    let mut bed = Bed::furnished();
    let mnt = bed.mount();
    for script in ["cd d && rm -r ../d", "mkdir n && cd n && rmdir ../n"] {
        let script = format!(
            "{script} && ! ls y 2>/dev/null && test -z \"$(ls -a . | grep -v '^\\.')\" \
            && ! touch new 2>/dev/null && ! cat y 2>/dev/null"
        );
        super::tools::run(&mnt, "removed", &script);
    }
}

/// A path can become longer than any call can carry; it ends where a record would not fit.
#[test]
fn deep_paths_end_and_can_be_removed() {
    use rustix::fs::{Mode, OFlags, mkdirat, openat};
    let mut bed = Bed::new();
    let name = "n".repeat(255);
    let mut at = ops::root(&bed.mount());
    let mut depth = 0;
    let last = loop {
        if let Err(errno) = mkdirat(&at, &name, Mode::RWXU) {
            break errno;
        }
        depth += 1;
        at = openat(
            &at,
            &name,
            OFlags::RDONLY | OFlags::DIRECTORY,
            Mode::empty(),
        )
        .unwrap();
    };
    drop(at);
    assert_eq!((depth, last), (128, rustix::io::Errno::NAMETOOLONG));
    bed.remount();
    // What lies below a renamed directory may be deeper still.
    fs::create_dir_all(bed.mnt().join("a/b/c")).unwrap();
    fs::rename(bed.mnt().join(&name), bed.mnt().join("a/b/c/deep")).unwrap();
    super::tools::run(&bed.mnt(), "remove", "rm -rf a && test -z \"$(ls)\"");
}

/// A name that the host made just now, and that the kernel remembers as absent, is opened.
#[test]
fn a_name_that_the_host_just_made_is_opened() {
    let mut bed = Bed::new();
    let mnt = bed.mount();
    for name in ["kept", "emptied", "mine"] {
        assert!(!mnt.join(name).exists());
        fs::write(bed.project().join(name), "the host's").unwrap();
    }
    let mut options = OpenOptions::new();
    options.append(true).create(true);
    options
        .open(mnt.join("kept"))
        .unwrap()
        .write_all(b"!")
        .unwrap();
    fs::write(mnt.join("emptied"), "new").unwrap();
    let exclusive = OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(mnt.join("mine"));
    assert_eq!(
        exclusive.unwrap_err().kind(),
        std::io::ErrorKind::AlreadyExists
    );
    assert_eq!(fs::read_to_string(mnt.join("kept")).unwrap(), "the host's!");
    assert_eq!(fs::read_to_string(mnt.join("emptied")).unwrap(), "new");
}

#[test]
fn a_session_inside_its_project_is_refused() {
    let bed = Bed::new();
    let inside = bed.project().join("session");
    fs::create_dir_all(inside.join("journal")).unwrap();
    let guard = bed.guard();
    assert!(guard.overlay().holds(&inside).unwrap());
    assert!(!guard.overlay().holds(Path::new("/")).unwrap());
    let served = aegisfs::fuse::mount(
        &inside,
        std::sync::Arc::new(guard),
        aegisfs::fuse::Options::default(),
    );
    assert!(served.is_err());
}

/// Waits for what may take as long as an entry is trusted.
pub fn wait_until(holds: impl Fn() -> bool) {
    let until = Instant::now() + Duration::from_secs(20);
    while !holds() {
        assert!(Instant::now() < until, "it did not come to hold");
        std::thread::sleep(Duration::from_millis(20));
    }
}
