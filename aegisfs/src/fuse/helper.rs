//! fusermount3(1), the set-user-id helper that mounts for those who may not.

use std::ffi::OsString;
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};

use super::mounting::{Audience, Terms};
use super::{NAME, Options};

/// The helper, as libfuse 3 calls it.
const HELPER: &str = "fusermount3";
/// Where it is installed; `PATH` could name anybody's program.
const PLACES: [&str; 4] = [
    "/usr/bin/fusermount3",
    "/bin/fusermount3",
    "/usr/local/bin/fusermount3",
    "/run/wrappers/bin/fusermount3",
];
/// Names the descriptor through which the helper hands the connection back.
const CHANNEL: &str = "_FUSE_COMMFD";

/// Mounts an empty connection.
///
/// # Errors
/// `NotFound` when there is no helper, or what it said.
pub(super) fn mount(place: &Path, options: Options, looks: &Terms) -> io::Result<OwnedFd> {
    let (ours, theirs) = UnixStream::pair()?;
    let child = helper()?
        .arg("-o")
        .arg(terms(options, looks))
        .arg("--")
        .arg(place)
        // As its standard input: a descriptor that is inherited by no other child meanwhile.
        .env(CHANNEL, "0")
        .stdin(OwnedFd::from(theirs))
        .spawn()?;
    let received = receive(&ours);
    drop(ours);
    let output = child.wait_with_output()?;
    match received? {
        Some(connection) if output.status.success() => Ok(connection),
        _ => Err(said(&output)),
    }
}

/// The options as the helper takes them: a comma or a backslash in a name stands behind a backslash.
fn terms(options: Options, looks: &Terms) -> OsString {
    let access = if options.read_only { "ro" } else { "rw" };
    let mut terms = format!("{access},nosuid,nodev,default_permissions,subtype={NAME}");
    if looks.audience == Audience::Everybody {
        terms.push_str(",allow_other");
    }
    if looks.no_exec {
        terms.push_str(",noexec");
    }
    terms.push_str(",fsname=");
    let mut terms = terms.into_bytes();
    for byte in looks.source.as_bytes() {
        if matches!(byte, b',' | b'\\') {
            terms.push(b'\\');
        }
        terms.push(*byte);
    }
    OsString::from_vec(terms)
}

/// Unmounts; `lazily` is for a mount that is in use.
///
/// # Errors
/// `ResourceBusy` when it is in use, `NotFound` when there is no helper, or what it said.
pub(super) fn unmount(place: &Path, lazily: bool) -> io::Result<()> {
    let mut command = helper()?;
    command.arg("-u");
    if lazily {
        command.arg("-z");
    }
    let output = command.arg("--").arg(place).stdin(Stdio::null()).output()?;
    if output.status.success() {
        return Ok(());
    }
    let error = said(&output);
    if error.to_string().contains("busy") {
        return Err(Errno::BUSY.into());
    }
    Err(error)
}

/// The set-uid helper of FUSE, where it is installed.
#[must_use]
pub fn fusermount() -> Option<&'static Path> {
    let can_start =
        |place: &&Path| rustix::fs::stat(*place).is_ok_and(|status| status.st_mode & 0o111 != 0);
    PLACES.iter().map(Path::new).find(can_start)
}

fn helper() -> io::Result<Command> {
    fusermount().map(start).ok_or_else(missing)
}

/// `program` with an environment that nobody outside has a say in.
fn start(program: &Path) -> Command {
    #[expect(
        clippy::disallowed_methods,
        reason = "the one program that the file system starts: it mounts for who may not"
    )]
    let mut command = Command::new(program);
    // Its words are looked at.
    command.env_clear().env("LC_ALL", "C");
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    command
}

/// The descriptor that the helper sends with one byte; `None` when it ends without.
fn receive(channel: &UnixStream) -> io::Result<Option<OwnedFd>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let mut bytes = [IoSliceMut::new(&mut byte)];
    loop {
        match recvmsg(channel, &mut bytes, &mut ancillary, RecvFlags::CMSG_CLOEXEC) {
            Err(Errno::INTR) => {}
            // Its end without a word: what it said elsewhere tells why.
            Err(Errno::CONNRESET) => return Ok(None),
            Err(errno) => return Err(errno.into()),
            Ok(_) => break,
        }
    }
    let mut sent = ancillary.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    Ok(sent.next())
}

fn missing() -> io::Error {
    let reason = format!("`{HELPER}` is not installed, and mounting without it is not allowed");
    io::Error::new(io::ErrorKind::NotFound, reason)
}

fn said(output: &Output) -> io::Error {
    let words = String::from_utf8_lossy(&output.stderr);
    let words = words.trim();
    if words.is_empty() {
        io::Error::other(format!("`{HELPER}` failed: {}", output.status))
    } else {
        io::Error::other(words.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_helper_has_a_place_and_gets_nothing_of_the_callers_environment() {
        assert!(PLACES.iter().all(|place| Path::new(place).is_absolute()));
        let mut env = start(Path::new("/usr/bin/env"));
        let output = env.stdout(Stdio::piped()).output().unwrap();
        assert_eq!(output.stdout, b"LC_ALL=C\n");
    }

    #[test]
    fn names_with_commas_stay_one_option() {
        let looks = Terms {
            source: "/a,b\\c".into(),
            audience: Audience::Everybody,
            no_exec: true,
        };
        let expected = "rw,nosuid,nodev,default_permissions,subtype=aegisfs,allow_other,noexec,\
                        fsname=/a\\,b\\\\c";
        assert_eq!(terms(Options::default(), &looks), expected);
    }
}
