//! A copy of the audit outside the session, written while things happen.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use aegis_policies::journal::{self, Position};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, openat};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::geteuid;

use super::history::History;
use super::json;
use crate::cli::talk;
use crate::error::CommandError;
use crate::session::home::{real_path, shown};

/// How long a file that can not be written to is left alone before the next attempt.
const RETRY: Duration = Duration::from_secs(1);

/// A file that is appended to and can be changed by nobody else.
#[derive(Debug)]
pub struct AuditFile {
    file: File,
    path: PathBuf,
}

/// The thread that copies. The journal is the record: what can not be written to the copy holds nothing
/// up, and is written later.
#[derive(Debug)]
pub struct Copying {
    stop: OwnedFd,
    thread: JoinHandle<Result<(), CommandError>>,
}

impl AuditFile {
    /// Opens or makes the file at `path`: a regular file of this user's own with one name, which is
    /// not reached by a link and lies neither in `project` nor below `mountpoint`.
    ///
    /// # Errors
    /// When it is anything else, or can not be opened.
    pub fn open(path: &Path, project: &Path, mountpoint: &Path) -> Result<Self, CommandError> {
        let refuse = |why: &str, next: &str| {
            let what = format!("the audit can not be written to `{}`", shown(path));
            CommandError::told(&what, why, next)
        };
        let failed = |error: io::Error| refuse(&error.to_string(), next(&error));
        let path = std::path::absolute(path).map_err(failed)?;
        let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(refuse("it is no file", "name a file"));
        };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = openat(CWD, folder, flags, Mode::empty());
        let folder = folder.map_err(|errno| failed(errno.into()))?;
        let real = real_path(folder.as_fd()).map_err(failed)?;
        let mountpoint = std::path::absolute(mountpoint).unwrap_or_default();
        if real.starts_with(project) || real.starts_with(&mountpoint) {
            let next = "name a file outside of both, which what works there can not change";
            return Err(refuse("it lies in the project or its view", next));
        }
        let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::NOFOLLOW;
        // A pipe without a reader is refused at once and not waited for.
        let flags = flags | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = openat(&folder, name, flags, Mode::RUSR | Mode::WUSR);
        let file = file.map_err(|errno| failed(errno.into()))?;
        let status = fstat(&file).map_err(|errno| failed(errno.into()))?;
        if FileType::from_raw_mode(status.st_mode) != FileType::RegularFile {
            return Err(refuse("it is no regular file", NEW_FILE));
        }
        if status.st_nlink != 1 {
            return Err(refuse("it has several names", NEW_FILE));
        }
        let others = Mode::WGRP | Mode::WOTH;
        let is_shared = Mode::from_raw_mode(status.st_mode).intersects(others);
        if status.st_uid != geteuid().as_raw() || is_shared {
            let next = "make it yours alone (`chmod go-w`, `chown`), or name a new file";
            return Err(refuse("others can change it", next));
        }
        Ok(Self {
            file: file.into(),
            path: real.join(name),
        })
    }

    /// Copies what comes behind `position` in the journal in `directory`, until it is told to finish.
    ///
    /// # Errors
    /// When the journal can not be watched.
    pub fn follow(self, directory: &Path, position: Position) -> Result<Copying, CommandError> {
        let failed = |source| CommandError::io("watching the journal", source);
        let changes = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)
            .map_err(|errno| failed(errno.into()))?;
        let kinds = WatchFlags::MODIFY | WatchFlags::CREATE | WatchFlags::MOVED_TO;
        inotify::add_watch(&changes, directory, kinds).map_err(|errno| failed(errno.into()))?;
        let (stopping, stop) =
            pipe_with(PipeFlags::CLOEXEC).map_err(|errno| failed(errno.into()))?;
        let copy = Copy {
            file: self,
            directory: directory.to_owned(),
            position,
            history: History::default(),
            pending: Vec::new(),
            is_told: false,
        };
        let thread = thread::spawn(move || copy.run(&changes, &stopping));
        Ok(Copying { stop, thread })
    }
}

impl Copying {
    /// Writes what is left and forces it to the disk.
    ///
    /// # Errors
    /// When something could not be copied.
    pub fn finish(self) -> Result<(), CommandError> {
        drop(self.stop);
        self.thread.join().unwrap_or_else(|_| {
            let source = io::Error::other("the thread that copies ended early");
            Err(CommandError::io("copying the audit", source))
        })
    }
}

const NEW_FILE: &str = "name a file that is not there yet, or a regular one with one name";

/// What to do when the file can not be opened.
fn next(error: &io::Error) -> &'static str {
    match Errno::from_io_error(error) {
        Some(Errno::NOENT) => "make the folder of the file first (`mkdir -p`)",
        Some(Errno::LOOP) => "name the file itself, not a link to it",
        Some(Errno::ISDIR) => "name a file in that folder",
        Some(Errno::ACCESS | Errno::PERM | Errno::ROFS) => "name a file that you can write to",
        Some(Errno::NOSPC | Errno::DQUOT) => "free some space there, or name a file elsewhere",
        _ => NEW_FILE,
    }
}

/// The work of the thread.
struct Copy {
    file: AuditFile,
    directory: PathBuf,
    position: Position,
    history: History,
    /// What of a line is still to be written.
    pending: Vec<u8>,
    is_told: bool,
}

impl Copy {
    fn run(mut self, changes: &OwnedFd, stopping: &OwnedFd) -> Result<(), CommandError> {
        loop {
            let is_written = match self.catch_up() {
                Ok(()) => true,
                Err(error) => {
                    self.tell(&error);
                    false
                }
            };
            if is_over(changes, stopping, is_written) {
                break;
            }
        }
        self.catch_up()?;
        let synced = self.file.file.sync_data();
        synced.map_err(|source| self.writing(source))
    }

    /// Copies what the journal has by now.
    fn catch_up(&mut self) -> Result<(), CommandError> {
        self.write()?;
        let mut entries = journal::read_from(&self.directory, &self.position)?;
        while let Some(item) = entries.next() {
            let (seq, entry) = item?;
            self.history.note(&entry);
            self.pending = json::line(seq, &entry, &self.history).into_bytes();
            self.pending.push(b'\n');
            self.position = entries.position().clone();
            self.write()?;
        }
        Ok(())
    }

    fn write(&mut self) -> Result<(), CommandError> {
        while !self.pending.is_empty() {
            match self.file.file.write(&self.pending) {
                Ok(0) => return Err(self.writing(io::ErrorKind::WriteZero.into())),
                Ok(count) => drop(self.pending.drain(..count)),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.writing(error)),
            }
        }
        Ok(())
    }

    /// Once: a full disk stays full for a while.
    fn tell(&mut self, error: &CommandError) {
        if !self.is_told {
            self.is_told = true;
            talk::say(&format!(
                "aegis-os: {error}; the session's own journal has it, and the copy is tried again"
            ));
        }
    }

    fn writing(&self, source: io::Error) -> CommandError {
        let path = shown(&self.file.path);
        CommandError::io(&format!("writing the audit to `{path}`"), source)
    }
}

/// Waits until the journal changes, or it is time to try again; true at the end.
fn is_over(changes: &OwnedFd, stopping: &OwnedFd, is_written: bool) -> bool {
    let mut polled = vec![PollFd::new(stopping, PollFlags::IN)];
    if is_written {
        polled.push(PollFd::new(changes, PollFlags::IN));
    }
    let retry = (!is_written)
        .then(|| Timespec::try_from(RETRY).ok())
        .flatten();
    let ready = rustix::event::poll(&mut polled, retry.as_ref());
    if ready.is_err() {
        thread::sleep(RETRY);
    }
    let is_over = polled.first().is_some_and(|fd| !fd.revents().is_empty());
    let mut events = [0_u8; 4096];
    while rustix::io::read(changes, &mut events).is_ok_and(|count| count > 0) {}
    is_over
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt, symlink};

    use aegis_policies::Journal;
    use aegis_policies::journal::Event;

    use super::*;

    fn refusal(path: &Path) -> String {
        let project = Path::new("/no/such/project");
        AuditFile::open(path, project, project)
            .unwrap_err()
            .to_string()
    }

    #[test]
    fn every_entry_is_copied_once_and_as_it_happens() {
        let folder = tempfile::tempdir().unwrap();
        let (directory, copy) = (folder.path().join("journal"), folder.path().join("copy"));
        fs::create_dir(&directory).unwrap();
        let journal = Journal::create(&directory).unwrap();
        let note = |status| journal.append(0, Default::default(), Event::Ended { status });
        note(1).unwrap();
        let place = Path::new("/no/such/project");
        let open = || AuditFile::open(&copy, place, place).unwrap();
        let copying = open().follow(&directory, journal.position()).unwrap();
        note(2).unwrap();
        while fs::read_to_string(&copy).unwrap().is_empty() {
            thread::sleep(Duration::from_millis(5));
        }
        note(3).unwrap();
        copying.finish().unwrap();
        let position = journal.position();
        note(4).unwrap();
        open()
            .follow(&directory, position)
            .unwrap()
            .finish()
            .unwrap();
        let lines = fs::read_to_string(&copy).unwrap();
        let statuses: Vec<_> = lines
            .lines()
            .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
            .map(|line| line["details"]["status"].as_i64().unwrap())
            .collect();
        assert_eq!(statuses, [2, 3, 4]);
        assert_eq!(fs::metadata(&copy).unwrap().mode() & 0o777, 0o600);
    }

    #[test]
    fn only_a_file_of_ones_own_is_written_to() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("file"), "").unwrap();
        symlink(at("file"), at("link")).unwrap();
        fs::hard_link(at("file"), at("second")).unwrap();
        assert!(refusal(&at("link")).contains("symbolic links"));
        assert!(refusal(&at("second")).contains("several names"));
        assert!(refusal(Path::new("/dev/null")).contains("no regular file"));
        assert!(refusal(folder.path()).contains("directory"));
        assert!(refusal(Path::new("/")).contains("it is no file"));
        let inside = AuditFile::open(&at("new"), folder.path(), Path::new("/x"));
        assert!(inside.unwrap_err().to_string().contains("lies in"));
        assert!(!at("new").exists());
    }
}
