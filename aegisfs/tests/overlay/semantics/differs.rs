//! What the kernel does not pass on to a file system outside it, and what is refused on purpose: the
//! errors that a caller gets, and that what callers do then works.

use std::fs;

use super::super::bed::Bed;
use super::run_in;

#[test]
fn ranges_are_not_taken_out_of_files() {
    let mut bed = Bed::furnished();
    let program = r#"
file = os.open("x", os.O_RDWR)
for mode in [8, 32, 64]:  # FALLOC_FL_COLLAPSE_RANGE, INSERT_RANGE, UNSHARE_RANGE
    libc.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_long, ctypes.c_long]
    tell(mode, lambda: system(libc.fallocate, file, mode, 0, 4096))
"#;
    let found = run_in(&bed.mount(), program, &[]);
    assert_eq!(found, "8 ENOTSUP\n32 ENOTSUP\n64 ENOTSUP\n");
}

/// Reflinks (ioctl_ficlone(2)) do not pass through the kernel's FUSE: cp(1) copies instead.
#[test]
fn clones_are_copies() {
    let mut bed = Bed::furnished();
    let mnt = bed.mount();
    let program = r#"
FICLONE, FICLONERANGE = 0x40049409, 0x4020940d
for source, target in [("x", "new"), ("a/x", "d/z"), ("d/z", "a/y")]:
    with open(source, "rb") as one, open(target, "r+b" if os.path.exists(target) else "w+b") as two:
        tell("clone", fcntl.ioctl, two.fileno(), FICLONE, one.fileno())
        tell("range", fcntl.ioctl, two.fileno(), FICLONERANGE, struct.pack("qQQQ", one.fileno(), 0, 0, 0))
print(subprocess.call(["cp", "--reflink=auto", "x", "copy"]), read("copy") == read("x"))
print(subprocess.call(["cp", "--reflink=always", "x", "copy2"], stderr=subprocess.DEVNULL) != 0)
"#;
    let found = run_in(&mnt, program, &[]);
    let (clones, copies) = found.split_at(found.find("0 True").unwrap());
    assert!(
        clones
            .lines()
            .all(|line| line.ends_with("ENOTSUP") || line.ends_with("ENOTTY")),
        "{found}"
    );
    assert_eq!(copies, "0 True\nTrue\n");
}

/// What the host's security modules keep is shown while the content is the host's. Nothing here
/// would enforce it, so it can not be set; capabilities are not shown either, since the mount gives
/// none. What the host's administrator keeps is nobody's business here.
#[test]
fn security_and_trusted_attributes() {
    let mut bed = Bed::furnished();
    for name in ["x", "a/x", "a/y", "d"] {
        for attribute in ["security.mine", "trusted.mine", "user.mine"] {
            set(&bed.project().join(name), attribute, b"v").unwrap();
        }
    }
    // VFS_CAP_REVISION_2, cap_net_raw=ep
    let capability = [1, 0, 0, 2, 0, 32, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    set(
        &bed.project().join("a/x"),
        "security.capability",
        &capability,
    )
    .unwrap();
    let mnt = bed.mount();
    let shown = |name: &str| super::super::tools::command(&mnt, &format!("getfattr -dm- {name}"));
    let shown = |name: &str| String::from_utf8(shown(name).output().unwrap().stdout).unwrap();
    fs::write(mnt.join("a/y"), "written").unwrap();
    fs::rename(mnt.join("d"), mnt.join("moved")).unwrap();
    fs::write(mnt.join("new"), "new").unwrap();
    for (name, security, user) in [
        ("x", true, true),
        ("a/x", true, true),
        ("moved", true, true),
        ("a/y", false, true),
        ("new", false, false),
    ] {
        let text = shown(name);
        assert_eq!(text.contains("security.mine"), security, "{name}: {text}");
        assert_eq!(text.contains("user.mine"), user, "{name}: {text}");
        assert!(
            !text.contains("trusted") && !text.contains("capability"),
            "{text}"
        );
        for attribute in [
            "security.mine",
            "security.capability",
            "trusted.mine",
            "system.mine",
        ] {
            let value = if attribute == "security.capability" {
                &capability[..]
            } else {
                b"w"
            };
            let error = set(&mnt.join(name), attribute, value).unwrap_err();
            assert_eq!(error, rustix::io::Errno::OPNOTSUPP, "{attribute} of {name}");
            let removed = rustix::fs::removexattr(mnt.join(name), attribute);
            assert_eq!(
                removed,
                Err(rustix::io::Errno::OPNOTSUPP),
                "{attribute} of {name}"
            );
        }
        let trusted = rustix::fs::getxattr(mnt.join(name), "trusted.mine", &mut [0; 9]);
        assert_eq!(trusted, Err(rustix::io::Errno::NODATA));
    }
}

/// On a file system without access control lists there are none.
#[test]
fn no_lists_where_the_host_has_none() {
    use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
    let mut bed = Bed::new();
    let options = c"size=1m,noacl";
    let project = bed.project();
    if mount(
        "tmpfs",
        &project,
        "tmpfs",
        MountFlags::empty(),
        Some(options),
    )
    .is_err()
    {
        mount("proc", &project, "ramfs", MountFlags::empty(), None).unwrap();
    }
    fs::write(project.join("f"), "f").unwrap();
    let mnt = bed.mount();
    fs::write(mnt.join("new"), "new").unwrap();
    // Version 2: owner 7, user 5 4, group 5, mask 7, others 0.
    let list = [
        &[2_u8, 0, 0, 0][..],
        &[1, 0, 7, 0, 255, 255, 255, 255],
        &[2, 0, 4, 0, 5, 0, 0, 0],
        &[4, 0, 5, 0, 255, 255, 255, 255],
        &[16, 0, 7, 0, 255, 255, 255, 255],
        &[32, 0, 0, 0, 255, 255, 255, 255],
    ]
    .concat();
    for name in ["f", "new", "."] {
        for kind in ["system.posix_acl_access", "system.posix_acl_default"] {
            let error = set(&mnt.join(name), kind, &list).unwrap_err();
            let directory = name == ".";
            let expected = if kind.ends_with("default") && !directory {
                vec![rustix::io::Errno::OPNOTSUPP, rustix::io::Errno::ACCESS]
            } else {
                vec![rustix::io::Errno::OPNOTSUPP]
            };
            assert!(expected.contains(&error), "{kind} of {name}: {error}");
        }
    }
    bed.unmount();
    unmount(&project, UnmountFlags::DETACH).unwrap();
}

/// Space is what the file system has that the changes are kept on.
#[test]
fn statfs_tells_of_the_projects_file_system() {
    let mut bed = Bed::furnished();
    let here = rustix::fs::statvfs(bed.mount().join("a")).unwrap();
    let host = rustix::fs::statvfs(bed.project().join("a")).unwrap();
    assert_eq!(
        (here.f_blocks, here.f_frsize, here.f_files, here.f_namemax),
        (host.f_blocks, host.f_frsize, host.f_files, host.f_namemax)
    );
    assert!(here.f_bavail > 0 && here.f_bavail <= here.f_blocks);
}

fn set(path: &std::path::Path, name: &str, value: &[u8]) -> Result<(), rustix::io::Errno> {
    rustix::fs::setxattr(path, name, value, rustix::fs::XattrFlags::empty())
}
