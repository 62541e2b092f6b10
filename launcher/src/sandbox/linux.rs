//! The Linux carrier: bubblewrap builds what the plan says.

use std::os::fd::OwnedFd;

use super::{Plan, SandboxError};
use crate::terminal::Stdio;

/// The directories and the file that are bound by descriptor, so that no name can be swapped.
#[derive(Debug)]
pub struct Descriptors {
    /// The root of the aegisfs view.
    pub view: OwnedFd,
    /// The project's real directory.
    pub real_tree: OwnedFd,
    /// The session's private home.
    pub home: OwnedFd,
}

/// A socket that listens inside the sandbox at 127.0.0.1.
#[derive(Debug)]
pub struct Door {
    /// The port that was asked for.
    pub port: u16,
    /// The listening socket; it lives in the sandbox's network namespace.
    pub listener: OwnedFd,
}

/// What the kernel really enforces inside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Enforced {
    /// The Landlock ABI in force; 0 when the kernel has no Landlock.
    pub landlock: i32,
    /// What is weaker than planned, in words; empty when everything holds.
    pub missing: Vec<String>,
}

/// How the command ended, as a shell would report it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exit {
    /// 0 to 255; 128+n when signal n ended it.
    pub code: u8,
}

/// A sandbox that is built and whose command has not started.
///
/// Dropping it ends the sandbox.
#[derive(Debug)]
pub struct Waiting {
    /// The listeners for the egress proxy, in the order of the plan.
    pub doors: Vec<Door>,
}

/// A sandbox whose command runs. Dropping it kills everything inside.
#[derive(Debug)]
pub struct Running {
    /// What is in force inside.
    pub enforced: Enforced,
}

/// Builds the sandbox and stops before the command.
///
/// Call it from the thread that lives as long as the launcher: the sandbox dies with it.
///
/// # Errors
/// [`SandboxError`] in every case in which the sandbox would be weaker than the plan.
pub fn start(
    _plan: &Plan,
    _descriptors: Descriptors,
    _stdio: &mut Stdio,
) -> Result<Waiting, SandboxError> {
    Err(SandboxError::BubblewrapMissing)
}

impl Waiting {
    /// Lets the command start.
    ///
    /// # Errors
    /// [`SandboxError::Stage`] when the last steps inside were refused.
    pub fn go(self) -> Result<Running, SandboxError> {
        Err(SandboxError::BubblewrapMissing)
    }
}

impl Running {
    /// Waits for the command and then for the death of every process inside.
    ///
    /// # Errors
    /// [`SandboxError::System`] when waiting fails.
    pub fn wait(self) -> Result<Exit, SandboxError> {
        Err(SandboxError::BubblewrapMissing)
    }
}
