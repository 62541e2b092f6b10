//! The sandbox as data: drawn up from the facts alone, carried out elsewhere.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::bwrap::Bubblewrap;
use super::facts::{Entry, HostFacts, Shown};
use super::layers::Layers;
use super::mount::{Access, Kind, Mount, Source, What};
use super::program::Program;
use super::{SandboxError, variables};

/// Where our own things are inside.
const OWN: &str = "/aegis";
/// The launcher's program inside; the shim's names are links to it.
pub(super) const BINARY: &str = "/aegis/bin/aegis-os";
/// The project's real directory inside, read-only.
const REAL_TREE: &str = "/aegis/host/project";
/// The names under which the program is the shim.
const SHIMS: [&str; 2] = ["git", "aos"];
/// Places that everybody may write, as on any system.
const SCRATCH: [&str; 2] = ["/tmp", "/var/tmp"];
/// Places where a project would take the sandbox's own workings away.
const RESERVED: [&str; 4] = ["/proc", "/sys", "/dev", OWN];

/// What a session wants to run.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// The session's id, shown inside as `AEGIS_SESSION`.
    pub session: String,
    /// The project's own absolute path, links resolved.
    pub project: PathBuf,
    /// Where the command starts: `project`, or a directory inside it.
    pub directory: PathBuf,
    /// The command and its arguments.
    pub command: Vec<OsString>,
    /// Further host paths to show read-only (`--ro`); relative ones start at `directory`.
    pub read_only: Vec<PathBuf>,
    /// Places that stay hidden whatever else is shown: the folder of all sessions, links resolved.
    pub hidden: Vec<PathBuf>,
    /// The hosts that the session may connect to; some toolchain directories depend on them.
    pub reachable: Vec<String>,
    /// Variables that the session adds (proxies, base URLs); they win over all others.
    pub environment: Vec<(OsString, OsString)>,
    /// TCP ports on which the sandbox listens at 127.0.0.1 for the egress proxy.
    pub doors: Vec<u16>,
}

/// The sandbox as it will be built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// What is where, parents first.
    pub mounts: Vec<Mount>,
    /// The whole environment of the command.
    pub environment: Vec<(OsString, OsString)>,
    /// Where the command starts.
    pub directory: PathBuf,
    /// The command and its arguments.
    pub command: Vec<OsString>,
    /// The ports to listen on at 127.0.0.1.
    pub doors: Vec<u16>,
    /// Below these paths Landlock allows to write.
    pub writable: Vec<PathBuf>,
    /// Files that Landlock keeps from being read, beside the mount that covers them.
    pub unreadable: Vec<PathBuf>,
    /// What builds it.
    pub bubblewrap: Bubblewrap,
    /// The private home's path.
    pub home: PathBuf,
    /// Files to write into the private home unless they exist, by their path in it.
    pub home_files: Vec<(PathBuf, Vec<u8>)>,
}

impl Plan {
    /// Draws up the plan; touches nothing.
    ///
    /// # Errors
    /// [`SandboxError`] when the request cannot be met without showing what must stay hidden.
    pub fn build(request: &Request, facts: &HostFacts) -> Result<Self, SandboxError> {
        check_command(request, facts)?;
        check_places(request, facts)?;
        let mut layers = Layers::default();
        place_root(&mut layers, facts);
        place_masks(&mut layers, facts);
        place_home(&mut layers, facts);
        expose_toolchains(&mut layers, request, facts);
        expose_programs(&mut layers, request, facts)?;
        hide_again(&mut layers, request);
        place_project(&mut layers, request);
        let unreadable = unreadable(&layers, facts);
        let environment = variables::build(request, facts, &layers);
        place_own(&mut layers);
        Ok(Self {
            environment,
            unreadable,
            bubblewrap: facts.bubblewrap.clone(),
            mounts: layers.into_mounts(),
            directory: request.directory.clone(),
            command: request.command.clone(),
            doors: request.doors.clone(),
            writable: writable(request, facts),
            home: facts.user.real_home.clone(),
            home_files: vec![(PathBuf::from(".gitconfig"), facts.identity.to_config())],
        })
    }
}

fn check_command(request: &Request, facts: &HostFacts) -> Result<(), SandboxError> {
    let name = request.command.first().ok_or(SandboxError::NoCommand)?;
    // A path may exist in the session's own view only; the stage looks there.
    let is_path = name.as_bytes().contains(&b'/');
    let is_ours = SHIMS.iter().any(|shim| name == shim);
    if facts.programs.is_empty() && !is_path && !is_ours {
        return Err(SandboxError::CommandNotFound(words(name)));
    }
    Ok(())
}

fn check_places(request: &Request, facts: &HostFacts) -> Result<(), SandboxError> {
    let project = &request.project;
    let refuse = |path: &Path, reason| {
        Err(SandboxError::Path {
            path: path.to_owned(),
            reason,
        })
    };
    if !project.is_absolute() || !request.directory.starts_with(project) {
        return refuse(project, "the command must start inside the project");
    }
    if facts.user.real_home.starts_with(project) {
        return refuse(project, "the project would show the whole home directory");
    }
    if RESERVED
        .iter()
        .any(|reserved| project.starts_with(reserved))
    {
        return refuse(project, "the sandbox needs that place for itself");
    }
    if request.hidden.iter().any(|hidden| overlap(hidden, project)) {
        return refuse(
            project,
            "the project and the folder of sessions lie in one another",
        );
    }
    let shows_secrets = |shown: &&Shown| {
        let kept = request.hidden.iter().chain([&facts.user.real_home]);
        kept.into_iter().any(|place| place.starts_with(&shown.real))
            || request
                .hidden
                .iter()
                .any(|hidden| shown.real.starts_with(hidden))
    };
    match facts.read_only.iter().find(shows_secrets) {
        Some(shown) => refuse(
            &shown.at,
            "it would show the home directory or other sessions",
        ),
        None => Ok(()),
    }
}

fn overlap(left: &Path, right: &Path) -> bool {
    left.starts_with(right) || right.starts_with(left)
}

fn place_root(layers: &mut Layers, facts: &HostFacts) {
    for top in &facts.top_level {
        let at = Path::new("/").join(&top.name);
        match &top.entry {
            Entry::Link(target) => layers.put(&at, What::Link(target.clone())),
            Entry::Plain(kind) => layers.show(&at, &at, *kind),
        }
    }
    layers.clear(Path::new(OWN));
    layers.put(Path::new("/proc"), What::Processes);
    layers.put(Path::new("/dev"), What::Devices);
}

fn place_masks(layers: &mut Layers, facts: &HostFacts) {
    let mut masks: Vec<_> = facts.masks.iter().collect();
    // A mask inside another mask has nothing to hide, so parents come first.
    masks.sort_by(|left, right| left.path.cmp(&right.path));
    for mask in masks
        .into_iter()
        .filter(|mask| mask.path.parent().is_some())
    {
        if layers.shows(&mask.path) {
            let hidden = if mask.kind == Kind::Directory {
                What::Hidden
            } else {
                What::Empty
            };
            layers.put(&mask.path, hidden);
        }
    }
    for scratch in SCRATCH {
        layers.put(Path::new(scratch), What::Scratch);
    }
}

fn place_home(layers: &mut Layers, facts: &HostFacts) {
    let user = &facts.user;
    let bind = What::Bind {
        from: Source::Home,
        access: Access::ReadWrite,
        kind: Kind::Directory,
    };
    layers.put(&user.real_home, bind);
    if user.home != user.real_home && !layers.shows(&user.home) {
        layers.put(&user.home, What::Link(user.real_home.clone()));
    }
}

fn expose_toolchains(layers: &mut Layers, request: &Request, facts: &HostFacts) {
    let toolchains = facts.toolchains.iter().flat_map(|found| &found.directories);
    let mut exposed: Vec<&Shown> = toolchains.chain(&facts.read_only).collect();
    exposed.sort_by(|left, right| left.at.cmp(&right.at));
    for shown in exposed {
        // A toolchain that is a link into the home or the project is what is there already.
        let is_private = facts.user.real_home.starts_with(&shown.real);
        let is_project = overlap(&shown.real, &request.project);
        if !layers.shows(&shown.at) && !is_private && !is_project {
            layers.show(&shown.at, &shown.real, shown.kind);
        }
    }
}

/// Makes the command visible, and nothing beside it.
fn expose_programs(
    layers: &mut Layers,
    request: &Request,
    facts: &HostFacts,
) -> Result<(), SandboxError> {
    for program in &facts.programs {
        if !is_visible(layers, request, &program.file) {
            expose_program(layers, request, facts, program)?;
        }
        // A link inside the package is there already.
        for hop in &program.links {
            if !is_visible(layers, request, &hop.at) {
                layers.put(&hop.at, What::Link(hop.target.clone()));
            }
        }
    }
    Ok(())
}

fn expose_program(
    layers: &mut Layers,
    request: &Request,
    facts: &HostFacts,
    program: &Program,
) -> Result<(), SandboxError> {
    let package = &program.package;
    let kept = request
        .hidden
        .iter()
        .chain([&facts.user.real_home, &request.project]);
    let shows_more = kept.into_iter().any(|place| place.starts_with(package))
        || request
            .hidden
            .iter()
            .any(|hidden| package.starts_with(hidden));
    if shows_more {
        return Err(SandboxError::CommandHidden(
            words(
                request
                    .command
                    .first()
                    .map_or(OsStr::new(""), OsString::as_os_str),
            ),
            words(program.file.as_os_str()),
        ));
    }
    let kind = if *package == program.file {
        Kind::File
    } else {
        Kind::Directory
    };
    layers.show(package, package, kind);
    Ok(())
}

fn is_visible(layers: &Layers, request: &Request, path: &Path) -> bool {
    path.starts_with(&request.project) || layers.shows(path)
}

fn hide_again(layers: &mut Layers, request: &Request) {
    for hidden in &request.hidden {
        if layers.shows(hidden) {
            layers.clear(hidden);
            layers.put(hidden, What::Hidden);
        }
    }
}

fn place_project(layers: &mut Layers, request: &Request) {
    // INVARIANT: nothing is mounted inside the view; when the view tells the kernel that a name
    // has changed, a mount on that name would be taken away.
    layers.clear(&request.project);
    let bind = What::Bind {
        from: Source::View,
        access: Access::ReadWrite,
        kind: Kind::Directory,
    };
    layers.put(&request.project, bind);
}

fn place_own(layers: &mut Layers) {
    let read = |from, kind| What::Bind {
        from,
        access: Access::ReadOnly,
        kind,
    };
    layers.put(Path::new(BINARY), read(Source::Binary, Kind::File));
    layers.put(
        Path::new(REAL_TREE),
        read(Source::RealTree, Kind::Directory),
    );
    for shim in SHIMS {
        let target = PathBuf::from("aegis-os");
        layers.put(&Path::new(BINARY).with_file_name(shim), What::Link(target));
    }
}

fn writable(request: &Request, facts: &HostFacts) -> Vec<PathBuf> {
    let mut places = vec![request.project.clone(), facts.user.real_home.clone()];
    places.extend(SCRATCH.map(PathBuf::from));
    places.push(PathBuf::from("/dev/shm"));
    places
}

/// A mount on a file goes away when the host puts a new file in its place, as an editor or passwd(1)
/// does; so the name has a second lock.
fn unreadable(layers: &Layers, facts: &HostFacts) -> Vec<PathBuf> {
    facts
        .masks
        .iter()
        .map(|mask| mask.path.clone())
        .filter(|path| layers.covers(path))
        .collect()
}

fn words(text: &OsStr) -> String {
    text.to_string_lossy().into_owned()
}

impl fmt::Display for Plan {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for mount in &self.mounts {
            writeln!(out, "{mount}")?;
        }
        for (name, value) in &self.environment {
            writeln!(out, "set {} to {value:?}", name.display())?;
        }
        for place in &self.writable {
            writeln!(out, "landlock: writing below {:?}", place.as_os_str())?;
        }
        for place in &self.unreadable {
            writeln!(out, "landlock: no reading of {:?}", place.as_os_str())?;
        }
        for door in &self.doors {
            writeln!(out, "door 127.0.0.1:{door}")?;
        }
        writeln!(out, "in {:?}", self.directory.as_os_str())?;
        writeln!(out, "run {:?}", self.command)
    }
}
