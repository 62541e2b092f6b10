//! The sandbox as data: drawn up from the facts alone, carried out elsewhere.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;

use super::bwrap::Bubblewrap;
use super::facts::HostFacts;
use super::layers::Layers;
use super::mount::Mount;
use super::{SandboxError, check, place, variables};

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
        check::command(request, facts)?;
        check::places(request, facts)?;
        let layers = place::all(request, facts)?;
        Ok(Self {
            environment: variables::build(request, facts, &layers),
            unreadable: unreadable(&layers, facts),
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

fn writable(request: &Request, facts: &HostFacts) -> Vec<PathBuf> {
    let mut places = vec![request.project.clone(), facts.user.real_home.clone()];
    places.extend(place::SCRATCH.map(PathBuf::from));
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
