//! Landlock and resource limits: what holds on top of the mounts.

use std::fs;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, BitFlags, CompatLevel, Compatible, LandlockStatus, PathBeneath, PathFd,
    RestrictionStatus, Ruleset, RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetError,
    RulesetStatus, Scope,
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::running::Enforced;

/// The newest ABI whose rights are planned for; an older kernel enforces what it knows.
const PLANNED: ABI = ABI::V9;
/// The scopes came with this ABI.
const SCOPES_SINCE: i32 = 6;
/// Connecting to a socket by its path is a right of its own since this ABI.
const SOCKETS_SINCE: i32 = 9;
/// Enough for a parallel build; a fork bomb ends here and not at the host's limit.
const MOST_PROCESSES: u64 = 8192;
/// Enough for watchers and databases (fs.nr_open is 1,048,576 by default).
const MOST_DESCRIPTORS: u64 = 524_288;

/// Allows writing below `writable` and to devices, executing everywhere, and reading everything but
/// `unreadable`.
pub(super) fn landlock(
    writable: &[PathBuf],
    unreadable: &[PathBuf],
) -> Result<Enforced, RulesetError> {
    let everything = AccessFs::from_all(PLANNED);
    let mut rules = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(everything)?
        .scope(Scope::AbstractUnixSocket | Scope::Signal)?
        .create()?;
    rules = allow_reading(rules, Path::new("/"), unreadable)?;
    rules = allow(rules, Path::new("/dev"), devices())?;
    for place in writable {
        rules = allow(rules, place, everything)?;
    }
    // Threads are named through /proc/self/task/TID/comm (pthread_setname_np(3)).
    if !rustix::process::getuid().is_root() {
        rules = allow(
            rules,
            Path::new("/proc"),
            AccessFs::from_read(PLANNED) | AccessFs::WriteFile,
        )?;
    }
    Ok(enforced(&rules.restrict_self()?))
}

/// Landlock knows no exceptions, so around each one everything else is allowed by name. What the
/// host puts there later cannot be read.
fn allow_reading(
    mut rules: RulesetCreated,
    place: &Path,
    unreadable: &[PathBuf],
) -> Result<RulesetCreated, RulesetError> {
    if !unreadable.iter().any(|path| path.starts_with(place)) {
        return allow(rules, place, AccessFs::from_read(PLANNED));
    }
    if unreadable.iter().any(|path| path == place) {
        return allow_if_empty(rules, place);
    }
    rules = allow(rules, place, AccessFs::Execute | AccessFs::ReadDir)?;
    // A directory that cannot be listed shows nothing that could be read.
    for entry in fs::read_dir(place).into_iter().flatten().flatten() {
        let is_link = entry.file_type().is_ok_and(|kind| kind.is_symlink());
        if !is_link {
            rules = allow_reading(rules, &entry.path(), unreadable)?;
        }
    }
    Ok(rules)
}

/// The empty file that covers a hidden one can be read, because programs take a file that is there
/// and refused for a fault (git does). The rule is about this file, not about its name.
fn allow_if_empty(rules: RulesetCreated, place: &Path) -> Result<RulesetCreated, RulesetError> {
    match PathFd::new(place) {
        Ok(file) if rustix::fs::fstat(&file).is_ok_and(|status| status.st_size == 0) => {
            rules.add_rule(PathBeneath::new(file, AccessFs::ReadFile))
        }
        _ => Ok(rules),
    }
}

fn allow(
    rules: RulesetCreated,
    place: &Path,
    access: BitFlags<AccessFs>,
) -> Result<RulesetCreated, RulesetError> {
    let Ok(descriptor) = PathFd::new(place) else {
        // Nothing is allowed at a place that is not there.
        return Ok(rules);
    };
    rules.add_rule(PathBeneath::new(descriptor, access))
}

/// Devices are written and controlled; nothing is made beside them.
fn devices() -> BitFlags<AccessFs> {
    AccessFs::from_read(PLANNED) | AccessFs::WriteFile | AccessFs::Truncate | AccessFs::IoctlDev
}

fn enforced(status: &RestrictionStatus) -> Enforced {
    let landlock = match status.landlock {
        LandlockStatus::Available { effective_abi, .. } => effective_abi as i32,
        _ => 0,
    };
    let mut missing = Vec::new();
    if status.ruleset == RulesetStatus::NotEnforced {
        missing
            .push("this kernel has no Landlock: the mounts alone keep files read-only".to_owned());
    } else if landlock < SCOPES_SINCE {
        missing.push(format!(
            "Landlock is at version {landlock}: abstract sockets are kept apart by the network \
             namespace alone"
        ));
    }
    if landlock < SOCKETS_SINCE {
        missing.push(
            "before Linux 7.1, a socket that a program of the host makes later in a place that is \
             shown can be reached"
                .to_owned(),
        );
    }
    Enforced { landlock, missing }
}

/// No core dumps (they would hold what the command read), and an end to fork bombs.
///
/// A limit of 0 bytes keeps files from being written, but a program of the host that core dumps are
/// piped to would still be started (core(5)). The kernel starts none for a process with a limit of
/// exactly 1 (fs/coredump.c), and 1 is too little for a file as well.
pub(super) fn limits() -> rustix::io::Result<()> {
    setrlimit(
        Resource::Core,
        Rlimit {
            current: Some(1),
            maximum: Some(1),
        },
    )?;
    lower(Resource::Nproc, MOST_PROCESSES)?;
    lower(Resource::Nofile, MOST_DESCRIPTORS)
}

fn lower(resource: Resource, most: u64) -> rustix::io::Result<()> {
    let now = getrlimit(resource);
    // `None` is "no limit".
    let bound = |limit: Option<u64>| Some(limit.map_or(most, |limit| limit.min(most)));
    setrlimit(
        resource,
        Rlimit {
            current: bound(now.current),
            maximum: bound(now.maximum),
        },
    )
}
