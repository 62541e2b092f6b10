//! What goes where: the root, what it hides, what is shown again, the project.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use super::check::{overlap, words};
use super::facts::{HostFacts, Shown};
use super::layers::Layers;
use super::mount::{Access, Kind, Source, What};
use super::program::Program;
use super::{Request, SandboxError};

/// Where our own things are inside.
pub(super) const OWN: &str = "/aegis";
/// The launcher's program inside; the shim's names are links to it.
pub(super) const BINARY: &str = "/aegis/bin/aegis-os";
/// The project's real directory inside, read-only.
const REAL_TREE: &str = "/aegis/host/project";
/// The names under which the program is the shim.
pub(super) const SHIMS: [&str; 2] = ["git", "aos"];
/// Places that everybody may write, as on any system.
pub(super) const SCRATCH: [&str; 3] = ["/tmp", "/var/tmp", "/dev/shm"];
/// Each of them may take this part of the machine's memory.
const SCRATCH_SHARE: u64 = 4;
/// Enough for the temporary files of a compiler, in bytes.
const LEAST_SCRATCH: u64 = 256 << 20;

/// Everything that the sandbox's file system consists of.
pub(super) fn all(request: &Request, facts: &HostFacts) -> Result<Layers, SandboxError> {
    let mut layers = Layers::default();
    place_root(&mut layers, facts);
    place_masks(&mut layers, facts);
    place_scratch(&mut layers, facts);
    place_home(&mut layers, facts);
    expose_toolchains(&mut layers, request, facts);
    expose_programs(&mut layers, request, facts)?;
    hide_again(&mut layers, request);
    hide_sockets(&mut layers, facts);
    place_project(&mut layers, request);
    place_own(&mut layers);
    Ok(layers)
}

/// Shows what the table names. A link leads where it leads on the host, or is not there: what is
/// behind it may be anything.
fn place_root(layers: &mut Layers, facts: &HostFacts) {
    for root in &facts.roots {
        layers.show(&root.path, &root.path, root.kind);
    }
    for link in &facts.links {
        layers.put(&link.at, What::Link(link.target.clone()));
    }
    for link in &facts.links {
        if !layers.shows(&link.at) {
            layers.clear(&link.at);
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
            layers.put(&mask.path, covering(mask.kind));
        }
    }
}

/// Memory that is written counts as the machine's, so it has a bound.
fn place_scratch(layers: &mut Layers, facts: &HostFacts) {
    let most = (facts.memory / SCRATCH_SHARE).max(LEAST_SCRATCH);
    for scratch in SCRATCH {
        layers.put(Path::new(scratch), What::Scratch { most });
    }
}

const fn covering(kind: Kind) -> What {
    match kind {
        Kind::Directory => What::Hidden,
        Kind::File => What::Empty,
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

fn hide_sockets(layers: &mut Layers, facts: &HostFacts) {
    for socket in &facts.sockets {
        if layers.shows(&socket.path) {
            layers.clear(&socket.path);
            layers.put(&socket.path, covering(socket.kind));
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
