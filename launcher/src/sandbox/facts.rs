//! What the host looks like, gathered once so that the plan itself is pure.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use aegis_policies::tables::{self, Mask, Root, Toolchain};
use nix::unistd::User;
use rustix::fs::{CWD, FileType, Mode, OFlags};

use super::bwrap::Bubblewrap;
use super::home::Identity;
use super::mount::Kind;
use super::program::{self, Hop, Program};
use super::{Request, SandboxError, socket};

/// Everything about the host that a plan depends on.
#[derive(Clone, Debug, Default)]
pub struct HostFacts {
    /// Who runs the launcher.
    pub user: Person,
    /// The launcher's own variables.
    pub environment: Vec<(OsString, OsString)>,
    /// The places of the root that are shown and exist; none of them is a link.
    pub roots: Vec<Place>,
    /// The links in `/`.
    pub links: Vec<Hop>,
    /// The places to hide that exist.
    pub masks: Vec<Place>,
    /// The sockets that programs of the host listen on.
    pub sockets: Vec<Place>,
    /// The toolchains of which at least one directory exists.
    pub toolchains: Vec<Found>,
    /// The paths of `--ro`.
    pub read_only: Vec<Shown>,
    /// The directories of `PATH` that exist, in order.
    pub search: Vec<Shown>,
    /// The command and, when it is a script, what interprets it. Empty when it was not found.
    pub programs: Vec<Program>,
    /// What builds the sandbox.
    pub bubblewrap: Bubblewrap,
    /// Who commits are by, from the user's own git configuration.
    pub identity: Identity,
    /// The machine's memory in bytes.
    pub memory: u64,
}

/// Who runs the launcher.
#[derive(Clone, Debug, Default)]
pub struct Person {
    /// The user's number.
    pub uid: u32,
    /// The login name.
    pub name: OsString,
    /// The home directory as it is named (`$HOME`, or else the user database).
    pub home: PathBuf,
    /// The home directory, links resolved.
    pub real_home: PathBuf,
}

/// An existing place, links resolved.
#[derive(Clone, Debug)]
pub struct Place {
    /// Where it is.
    pub path: PathBuf,
    /// What it is.
    pub kind: Kind,
}

/// An existing path as it is named, and where it really is.
#[derive(Clone, Debug)]
pub struct Shown {
    /// The name.
    pub at: PathBuf,
    /// Where that leads, links resolved.
    pub real: PathBuf,
    /// What is there.
    pub kind: Kind,
}

/// A toolchain that the host has.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// Those of its directories that exist.
    pub directories: Vec<Shown>,
    /// What belongs on `PATH`.
    pub search: Vec<PathBuf>,
    /// Its variables.
    pub environment: Vec<(OsString, OsString)>,
}

/// Looks at the host: its root, the masked and re-exposed places that exist, the command.
///
/// Must be called before [`super::namespace::enter`]: inside, owners look different.
///
/// # Errors
/// [`SandboxError`] when the root directory cannot be listed, a path of `--ro` does not exist, or
/// there is no bubblewrap that can be trusted.
pub fn gather(request: &Request) -> Result<HostFacts, SandboxError> {
    let environment: Vec<_> = env::vars_os().collect();
    let user = person();
    let search = search_path(&environment);
    let table = |error: tables::TableError| SandboxError::Table(error.to_string());
    Ok(HostFacts {
        roots: tables::roots()
            .map_err(table)?
            .iter()
            .filter_map(existing_root)
            .collect(),
        links: top_level_links()?,
        masks: tables::masks()
            .map_err(table)?
            .iter()
            .flat_map(existing_masks)
            .collect(),
        sockets: socket::find(),
        toolchains: tables::toolchains()
            .map_err(table)?
            .iter()
            .filter(|toolchain| is_wanted(toolchain, request))
            .filter_map(|toolchain| find_toolchain(toolchain, &user.home))
            .collect(),
        read_only: request
            .read_only
            .iter()
            .map(|path| read_only(&request.directory.join(path)))
            .collect::<Result<_, _>>()?,
        programs: program::find(&request.command, &request.directory, &search),
        bubblewrap: Bubblewrap::find()?,
        identity: Identity::of_the_user(),
        memory: memory(),
        search,
        user,
        environment,
    })
}

fn person() -> Person {
    let uid = rustix::process::getuid();
    // The user database may know nothing of a number (containers); the environment names it then.
    let entry = User::from_uid(nix::unistd::Uid::from_raw(uid.as_raw()))
        .ok()
        .flatten();
    let name = entry
        .as_ref()
        .map(|user| OsString::from(&user.name))
        .or_else(|| env::var_os("USER"))
        .unwrap_or_else(|| "user".into());
    let home = env::var_os("HOME")
        .map(PathBuf::from)
        .or_else(|| entry.map(|user| user.dir))
        .filter(|home| home.is_absolute() && home.parent().is_some())
        .unwrap_or_else(|| Path::new("/home").join(&name));
    let real_home = resolve(&home).unwrap_or_else(|| home.clone());
    Person {
        uid: uid.as_raw(),
        name,
        home,
        real_home,
    }
}

/// A root that is a link is made again as one, like every link beside it.
fn existing_root(root: &Root) -> Option<Place> {
    let found = shown(Path::new(&root.path))?;
    (found.at == found.real).then_some(Place {
        path: found.real,
        kind: found.kind,
    })
}

fn top_level_links() -> Result<Vec<Hop>, SandboxError> {
    let listing = fs::read_dir("/").map_err(SandboxError::system("listing `/`"))?;
    let link = |entry: fs::DirEntry| {
        let at = entry.path();
        let target = fs::read_link(&at).ok()?;
        Some(Hop { at, target })
    };
    let mut links: Vec<Hop> = listing.flatten().filter_map(link).collect();
    links.sort_by(|left, right| left.at.cmp(&right.at));
    Ok(links)
}

fn memory() -> u64 {
    let system = rustix::system::sysinfo();
    system.totalram.saturating_mul(system.mem_unit.into())
}

/// The host says whether it is a file or a directory: only the same can be mounted over it.
fn existing_masks(mask: &Mask) -> Vec<Place> {
    let (directory, name) = mask.split();
    let paths: Vec<PathBuf> = if mask.is_pattern() {
        let listing = fs::read_dir(directory).into_iter().flatten().flatten();
        listing
            .filter(|entry| mask.covers(entry.file_name().as_bytes()))
            .map(|entry| entry.path())
            .collect()
    } else {
        vec![Path::new(directory).join(name)]
    };
    paths
        .iter()
        .filter_map(|path| shown(path))
        .map(|shown| Place {
            path: shown.real,
            kind: shown.kind,
        })
        .collect()
}

/// `reachable` has entries like HOST and HOST:PORT.
fn is_wanted(toolchain: &Toolchain, request: &Request) -> bool {
    let hosts = request
        .reachable
        .iter()
        .filter_map(|entry| entry.split(':').next());
    !hosts.into_iter().any(|host| {
        toolchain
            .unless_allowed
            .iter()
            .any(|word| host.contains(word.as_str()))
    })
}

fn find_toolchain(toolchain: &Toolchain, home: &Path) -> Option<Found> {
    let expand = |text: &String| expand_home(text, home);
    let first = toolchain.directories.first().map(expand)?;
    let directories: Vec<Shown> = toolchain
        .directories
        .iter()
        .map(expand)
        .filter_map(|path| shown(&path))
        .collect();
    let first_exists = directories.first().is_some_and(|shown| shown.at == first);
    let variables = toolchain.environment.iter().filter(|_| first_exists);
    (!directories.is_empty()).then(|| Found {
        search: toolchain
            .search
            .iter()
            .map(expand)
            .filter(|path| path.is_dir())
            .collect(),
        environment: variables
            .map(|(name, value)| (name.into(), expand_home(value, home).into()))
            .collect(),
        directories,
    })
}

fn expand_home(text: &str, home: &Path) -> PathBuf {
    match text.strip_prefix("~/") {
        Some(rest) => home.join(rest),
        None => PathBuf::from(text),
    }
}

fn read_only(path: &Path) -> Result<Shown, SandboxError> {
    shown(path).ok_or_else(|| SandboxError::Path {
        path: path.to_owned(),
        reason: "there is no file or directory of this name",
    })
}

fn search_path(environment: &[(OsString, OsString)]) -> Vec<Shown> {
    let path = environment
        .iter()
        .find(|(name, _)| name == "PATH")
        .map(|(_, value)| value);
    let path = path.map_or(
        OsStr::new("/usr/local/bin:/usr/bin:/bin"),
        OsString::as_os_str,
    );
    // A relative entry means another place in every directory, so it is no place at all.
    env::split_paths(path)
        .filter(|entry| entry.is_absolute())
        .filter_map(|entry| shown(&entry))
        .filter(|shown| shown.kind == Kind::Directory)
        .collect()
}

/// Looks up a path; `None` when nothing is there, or neither a file nor a directory.
pub(super) fn shown(path: &Path) -> Option<Shown> {
    let real = resolve(path)?;
    let status = rustix::fs::stat(&real).ok()?;
    let kind = match FileType::from_raw_mode(status.st_mode) {
        FileType::Directory => Kind::Directory,
        FileType::RegularFile => Kind::File,
        _ => return None,
    };
    Some(Shown {
        at: path.to_owned(),
        real,
        kind,
    })
}

/// The path with every link followed; asked of the kernel, which walks it once.
pub(super) fn resolve(path: &Path) -> Option<PathBuf> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let descriptor = rustix::fs::openat(CWD, path, flags, Mode::empty()).ok()?;
    fs::read_link(format!("/proc/self/fd/{}", descriptor.as_raw_fd())).ok()
}
