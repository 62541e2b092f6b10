//! The file systems that can not carry a project.

/// Why a file system of this type (as /proc/self/mountinfo names it) is refused; `None` when it can
/// carry a project.
pub(super) fn refusal(kind: &str) -> Option<&'static str> {
    REFUSED
        .iter()
        .find(|(start, _)| kind.starts_with(start))
        .map(|(_, why)| *why)
}

const NETWORK: &str =
    "a network file system, on which changes by other machines can not be noticed";
const PSEUDO: &str = "which shows the state of the kernel and holds no files";
const OURS: &str = "which is the view of another session";

/// File systems that can not carry a project, by the start of their type.
const REFUSED: &[(&str, &str)] = &[
    ("fuse.aegisfs", OURS),
    ("nfs", NETWORK),
    ("cifs", NETWORK),
    ("smb", NETWORK),
    ("9p", NETWORK),
    ("afs", NETWORK),
    ("ceph", NETWORK),
    ("coda", NETWORK),
    ("lustre", NETWORK),
    ("ncpfs", NETWORK),
    ("orangefs", NETWORK),
    ("davfs", NETWORK),
    ("fuse.sshfs", NETWORK),
    ("fuse.rclone", NETWORK),
    ("fuse.s3fs", NETWORK),
    ("fuse.gcsfuse", NETWORK),
    ("fuse.glusterfs", NETWORK),
    ("fuse.ceph", NETWORK),
    ("fuse.curlftpfs", NETWORK),
    ("fuse.davfs", NETWORK),
    ("proc", PSEUDO),
    ("sysfs", PSEUDO),
    ("cgroup", PSEUDO),
    ("devpts", PSEUDO),
    ("devtmpfs", PSEUDO),
    ("debugfs", PSEUDO),
    ("tracefs", PSEUDO),
    ("securityfs", PSEUDO),
    ("configfs", PSEUDO),
    ("fusectl", PSEUDO),
    ("bpf", PSEUDO),
    ("pstore", PSEUDO),
    ("efivarfs", PSEUDO),
    ("mqueue", PSEUDO),
    ("hugetlbfs", PSEUDO),
    ("binfmt_misc", PSEUDO),
    ("autofs", PSEUDO),
    ("nsfs", PSEUDO),
];

#[cfg(test)]
mod tests {
    use super::refusal;

    #[test]
    fn local_disks_carry_projects_and_the_network_does_not() {
        for kind in [
            "ext4",
            "xfs",
            "btrfs",
            "zfs",
            "tmpfs",
            "overlay",
            "fuse.mergerfs",
            "virtiofs",
        ] {
            assert_eq!(refusal(kind), None, "{kind}");
        }
        for kind in [
            "nfs",
            "nfs4",
            "cifs",
            "smb3",
            "9p",
            "fuse.sshfs",
            "fuse.rclone",
        ] {
            assert!(
                refusal(kind).is_some_and(|why| why.contains("network")),
                "{kind}"
            );
        }
        for kind in ["proc", "sysfs", "cgroup2", "devtmpfs", "fuse.aegisfs"] {
            assert!(refusal(kind).is_some(), "{kind}");
        }
    }
}
