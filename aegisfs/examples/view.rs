//! A protected view by the library alone: `view PROJECT SESSION MOUNTPOINT [ro]`.
//!
//! SESSION is a folder of the caller's own, which keeps the journal and what is changed. With `ro`
//! nothing can be changed. Either way what the policy calls a secret can not be read, and every open
//! is on record before it is answered. Unmount it with `fusermount3 -u MOUNTPOINT`.

use std::error::Error;
use std::fs::{self, DirBuilder};
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::sync::Arc;

use aegis_policies::{Gate, journal};
use aegisfs::commit::relocations;
use aegisfs::fuse::{Options, mount};
use aegisfs::guard::Guard;
use aegisfs::layout::SessionDir;
use aegisfs::overlay::{Overlay, checkpoint};
use rustix::fs::{Mode, OFlags, open};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let (places, read_only) = match arguments.split_at_checked(3) {
        Some((places, [])) => (places, false),
        Some((places, [word])) if word == "ro" => (places, true),
        _ => return Err("usage: view PROJECT SESSION MOUNTPOINT [ro]".into()),
    };
    let [project, session, mountpoint] = places else {
        return Err("three places are needed".into());
    };
    serve(
        Path::new(project),
        &SessionDir::new(session.into()),
        Path::new(mountpoint),
        read_only,
    )
}

fn serve(
    project: &Path,
    session: &SessionDir,
    mountpoint: &Path,
    read_only: bool,
) -> Result<(), Box<dyn Error>> {
    // The journal is the audit trail and the state in one. Who holds the session's lock may write it.
    let journal = Arc::new(if session.journal().try_exists()? {
        checkpoint::resume_journal(session)?
    } else {
        make_folders(session)?;
        journal::Journal::create(&session.journal())?
    });
    // The gate judges every effect by the built-in policy and records what it decided.
    let gate = Arc::new(Gate::with_defaults(journal, None)?);
    // The project is held by a descriptor that nothing can be written through.
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let project = open(project, flags, Mode::empty())?;
    let overlay = Overlay::open(project, session, relocations(session)?, Arc::clone(&gate))?;
    let guard = Guard::new(overlay, gate, "example".into());
    let guard = if read_only { guard.read_only() } else { guard };
    let options = Options {
        read_only,
        ..Options::default()
    };
    let served = mount(mountpoint, Arc::new(guard), options)?;
    writeln!(io::stdout(), "{:?}", served.features())?;
    served.wait()?;
    print_audit(session)
}

fn make_folders(session: &SessionDir) -> io::Result<()> {
    for folder in [session.journal(), session.content(), session.base()] {
        // What is in it is nobody else's to read.
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)?;
    }
    fs::metadata(session.root()).map(drop)
}

fn print_audit(session: &SessionDir) -> Result<(), Box<dyn Error>> {
    for item in journal::read(&session.journal())? {
        let (seq, entry) = item?;
        writeln!(io::stdout(), "{seq} {:?}", entry.event)?;
    }
    Ok(())
}
