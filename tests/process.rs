//! Running a program to its end, with a limit, and keeping what it said.

use std::fs::File;
use std::io::{Read, Seek};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// How long one program may take before the test is ended; a hung mount must not hang the run.
const LIMIT: Duration = Duration::from_secs(240);

/// A program that has ended.
#[derive(Debug)]
pub struct Finished {
    /// How it ended.
    pub status: ExitStatus,
    /// What it wrote to standard output; invalid UTF-8 is replaced.
    pub stdout: String,
    /// What it wrote to standard error; invalid UTF-8 is replaced.
    pub stderr: String,
    /// How long it took.
    pub wall: Duration,
}

impl Finished {
    /// Runs `command` to its end without input.
    ///
    /// The output goes through files and not through pipes: a process that outlives the command
    /// would keep a pipe open and this call waiting.
    ///
    /// # Panics
    /// When the program can not be started or takes longer than the limit.
    pub fn of(command: &mut Command) -> Self {
        let mut stdout = tempfile::tempfile().unwrap();
        let mut stderr = tempfile::tempfile().unwrap();
        let started = Instant::now();
        let child = command
            .stdin(Stdio::null())
            .stdout(stdout.try_clone().unwrap())
            .stderr(stderr.try_clone().unwrap())
            .process_group(0)
            .spawn()
            .unwrap_or_else(|error| panic!("`{command:?}` could not be started: {error}"));
        let ended = wait(child, started);
        let mut finished = |status| Self {
            status,
            stdout: text(&mut stdout),
            stderr: text(&mut stderr),
            wall: started.elapsed(),
        };
        match ended {
            Some(status) => finished(status),
            None => panic!(
                "`{command:?}` took too long: {:#?}",
                finished(ExitStatus::from_raw(9))
            ),
        }
    }

    /// The same, for a command that has to succeed.
    ///
    /// # Panics
    /// When it ended with another status than 0.
    #[must_use]
    #[track_caller]
    pub fn ok(self) -> Self {
        assert!(
            self.status.success(),
            "ended with {}\n--- stdout\n{}\n--- stderr\n{}",
            self.status,
            self.stdout,
            self.stderr
        );
        self
    }

    /// The same, for a command that has to fail.
    ///
    /// # Panics
    /// When it ended with status 0.
    #[must_use]
    #[track_caller]
    pub fn fails(self) -> Self {
        assert!(
            !self.status.success(),
            "succeeded\n--- stdout\n{}\n--- stderr\n{}",
            self.stdout,
            self.stderr
        );
        self
    }

    /// Both streams, for assertions that do not care which.
    #[must_use]
    pub fn output(&self) -> String {
        format!("{}{}", self.stdout, self.stderr)
    }
}

fn wait(mut child: Child, started: Instant) -> Option<ExitStatus> {
    while started.elapsed() < LIMIT {
        if let Some(status) = child.try_wait().unwrap() {
            return Some(status);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    // The whole group: the program may have started others.
    let group = format!("-{}", child.id());
    let _ = Command::new("kill").args(["-KILL", "--", &group]).status();
    let _ = child.wait();
    None
}

fn text(file: &mut File) -> String {
    let mut bytes = Vec::new();
    file.rewind().unwrap();
    file.read_to_end(&mut bytes).unwrap();
    String::from_utf8_lossy(&bytes).into_owned()
}
