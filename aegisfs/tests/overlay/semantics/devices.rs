//! Device nodes are records; nothing opens one.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, chown};
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, RenameFlags, makedev, mknodat, renameat_with};
use rustix::io::Errno;

use super::super::bed::Bed;
use super::super::tree::fingerprint;

const KINDS: [(&str, FileType); 2] = [
    ("null", FileType::CharacterDevice),
    ("disk", FileType::BlockDevice),
];
/// More than 8 bits of each, so that the order of the bits is seen.
const NUMBER: (u32, u32) = (0x123, 0x4_5678);

fn make(directory: &Path) {
    for (name, kind) in KINDS {
        let (major, minor) = NUMBER;
        let number = makedev(major, minor);
        mknodat(
            CWD,
            directory.join(name),
            kind,
            Mode::from_raw_mode(0o640),
            number,
        )
        .unwrap();
    }
}

/// Type, mode, number, owner and names.
fn shown(path: &Path) -> (bool, bool, u32, u64, u32, u64) {
    let meta = fs::symlink_metadata(path).unwrap();
    let kind = meta.file_type();
    let (character, block) = (kind.is_char_device(), kind.is_block_device());
    let mode = meta.mode() & 0o7777;
    (
        character,
        block,
        mode,
        meta.rdev(),
        meta.uid(),
        meta.nlink(),
    )
}

fn opens_nothing(mnt: &Path, name: &str) {
    let opened = fs::File::open(mnt.join(name));
    let errno = opened.unwrap_err().raw_os_error();
    assert_eq!(errno, Some(Errno::ACCESS.raw_os_error()));
}

/// Those of the session and of the host, over a replay.
#[test]
fn devices_live_like_the_rest_and_open_nothing() {
    for host in [false, true] {
        let mut bed = Bed::new();
        if host {
            make(&bed.project());
        }
        let before = fingerprint(&bed.project());
        let mnt = bed.mount();
        if !host {
            make(&mnt);
        }
        let number = makedev(NUMBER.0, NUMBER.1);
        for (name, kind) in KINDS {
            let character = kind == FileType::CharacterDevice;
            let is = |mode, uid, links| (character, !character, mode, number, uid, links);
            assert_eq!(shown(&mnt.join(name)), is(0o640, 0, 1));
            opens_nothing(&mnt, name);
            let (moved, second) = (mnt.join(format!("{name}.m")), mnt.join(format!("{name}.l")));
            fs::rename(mnt.join(name), &moved).unwrap();
            fs::hard_link(&moved, &second).unwrap();
            fs::set_permissions(&moved, fs::Permissions::from_mode(0o600)).unwrap();
            chown(&moved, Some(12), None).unwrap();
            assert_eq!(shown(&second), is(0o600, 12, 2));
            bed.remount();
            assert_eq!(shown(&second), is(0o600, 12, 2));
            opens_nothing(&mnt, &format!("{name}.l"));
            fs::remove_file(&moved).unwrap();
            assert_eq!(shown(&second), is(0o600, 12, 1));
            fs::remove_file(&second).unwrap();
        }
        bed.remount();
        assert_eq!(fs::read_dir(&mnt).unwrap().count(), 0);
        assert_eq!(fingerprint(&bed.project()), before);
    }
}

/// Who may not on a plain directory may not here, but for 0/0, which everybody may make (mknod(2)).
#[test]
fn an_ordinary_user_makes_none() {
    let mut bed = Bed::new();
    let mnt = bed.mount();
    for directory in [bed.root().to_owned(), mnt.clone()] {
        fs::set_permissions(&directory, fs::Permissions::from_mode(0o777)).unwrap();
        let script = "setpriv --reuid=65534 --regid=65534 --clear-groups sh -c \
            'mknod c c 1 3; mknod b b 7 0; mknod w c 0 0; ls' 2>/dev/null";
        let output = super::super::tools::command(&directory, script).output();
        let names = String::from_utf8(output.unwrap().stdout).unwrap();
        let made: Vec<_> = names.lines().filter(|name| name.len() == 1).collect();
        assert_eq!(made, ["w"]);
    }
}

#[test]
fn a_whiteout_is_refused() {
    let mut bed = Bed::furnished();
    let mnt = bed.mount();
    for name in ["x", "a"] {
        let renamed = renameat_with(
            CWD,
            mnt.join(name),
            CWD,
            mnt.join("new"),
            RenameFlags::WHITEOUT,
        );
        assert_eq!(renamed, Err(Errno::INVAL));
    }
    assert!(mnt.join("x").exists() && mnt.join("a").exists() && !mnt.join("new").exists());
}
