//! The numbers of the system calls that the filter may name.

/// The number of a call on this architecture: `None` for a name that is no call at all,
/// `Some(None)` for a call that this architecture does not have.
pub(super) fn number(name: &str) -> Option<Option<i64>> {
    let known = COMMON
        .iter()
        .chain(NEWER)
        .chain(OWN)
        .find(|(call, _)| *call == name);
    known
        .map(|(_, number)| Some(*number))
        .or_else(|| ABSENT.contains(&name).then_some(None))
}

/// Calls that every architecture of ours has.
const COMMON: &[(&str, i64)] = &[
    ("add_key", libc::SYS_add_key),
    ("request_key", libc::SYS_request_key),
    ("keyctl", libc::SYS_keyctl),
    ("io_uring_setup", libc::SYS_io_uring_setup),
    ("io_uring_enter", libc::SYS_io_uring_enter),
    ("io_uring_register", libc::SYS_io_uring_register),
    ("bpf", libc::SYS_bpf),
    ("perf_event_open", libc::SYS_perf_event_open),
    ("userfaultfd", libc::SYS_userfaultfd),
    ("ptrace", libc::SYS_ptrace),
    ("process_vm_readv", libc::SYS_process_vm_readv),
    ("process_vm_writev", libc::SYS_process_vm_writev),
    ("process_madvise", libc::SYS_process_madvise),
    ("kcmp", libc::SYS_kcmp),
    ("pidfd_getfd", libc::SYS_pidfd_getfd),
    ("open_by_handle_at", libc::SYS_open_by_handle_at),
    ("mount", libc::SYS_mount),
    ("umount2", libc::SYS_umount2),
    ("pivot_root", libc::SYS_pivot_root),
    ("chroot", libc::SYS_chroot),
    ("move_mount", libc::SYS_move_mount),
    ("open_tree", libc::SYS_open_tree),
    ("fsopen", libc::SYS_fsopen),
    ("fsconfig", libc::SYS_fsconfig),
    ("fsmount", libc::SYS_fsmount),
    ("fspick", libc::SYS_fspick),
    ("mount_setattr", libc::SYS_mount_setattr),
    ("setns", libc::SYS_setns),
    ("clone", libc::SYS_clone),
    ("clone3", libc::SYS_clone3),
    ("unshare", libc::SYS_unshare),
    ("init_module", libc::SYS_init_module),
    ("finit_module", libc::SYS_finit_module),
    ("delete_module", libc::SYS_delete_module),
    ("kexec_load", libc::SYS_kexec_load),
    ("kexec_file_load", libc::SYS_kexec_file_load),
    ("reboot", libc::SYS_reboot),
    ("swapon", libc::SYS_swapon),
    ("swapoff", libc::SYS_swapoff),
    ("acct", libc::SYS_acct),
    ("quotactl", libc::SYS_quotactl),
    ("quotactl_fd", libc::SYS_quotactl_fd),
    ("settimeofday", libc::SYS_settimeofday),
    ("clock_settime", libc::SYS_clock_settime),
    ("clock_adjtime", libc::SYS_clock_adjtime),
    ("adjtimex", libc::SYS_adjtimex),
    ("syslog", libc::SYS_syslog),
    ("lookup_dcookie", libc::SYS_lookup_dcookie),
    ("vhangup", libc::SYS_vhangup),
    ("nfsservctl", libc::SYS_nfsservctl),
    ("migrate_pages", libc::SYS_migrate_pages),
    ("move_pages", libc::SYS_move_pages),
    ("fanotify_init", libc::SYS_fanotify_init),
    ("vmsplice", libc::SYS_vmsplice),
];

/// Calls that libc has no name for yet; newer calls have one number everywhere
/// (scripts/syscall.tbl of the kernel).
const NEWER: &[(&str, i64)] = &[("open_tree_attr", 467)];

/// Calls of this architecture alone.
#[cfg(target_arch = "x86_64")]
const OWN: &[(&str, i64)] = &[
    ("uselib", libc::SYS_uselib),
    ("ustat", libc::SYS_ustat),
    ("modify_ldt", libc::SYS_modify_ldt),
    ("iopl", libc::SYS_iopl),
    ("ioperm", libc::SYS_ioperm),
];
#[cfg(not(target_arch = "x86_64"))]
const OWN: &[(&str, i64)] = &[];

/// Calls of other architectures.
#[cfg(target_arch = "x86_64")]
const ABSENT: &[&str] = &[];
#[cfg(not(target_arch = "x86_64"))]
const ABSENT: &[&str] = &["uselib", "ustat", "modify_ldt", "iopl", "ioperm"];
