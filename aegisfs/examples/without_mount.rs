//! The tree as a library, without a mount: `without_mount PROJECT SESSION NAME` reads a file at the top
//! of a project through the guard and writes a line behind it, which stays in the session.

use std::error::Error;
use std::io::Write;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;

use aegis_policies::{Gate, Journal};
use aegisfs::guard::Guard;
use aegisfs::layout::SessionDir;
use aegisfs::overlay::changes::changes;
use aegisfs::overlay::{Access, Caller, Lookup, Overlay, Relocations};
use rustix::fs::{Mode, OFlags, open};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let [project, session, name] = arguments.as_slice() else {
        return Err("usage: without_mount PROJECT SESSION NAME".into());
    };
    let session = SessionDir::new(session.into());
    for folder in [session.journal(), session.content(), session.base()] {
        std::fs::create_dir_all(folder)?;
    }
    let journal = Arc::new(Journal::create(&session.journal())?);
    let gate = Arc::new(Gate::with_defaults(journal, None)?);
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = open(Path::new(project), flags, Mode::empty())?;
    let overlay = Overlay::open(
        directory.try_clone()?,
        &session,
        Relocations::default(),
        Arc::clone(&gate),
    )?;
    let root = overlay.root();
    let guard = Guard::new(overlay, gate, "example".into());
    let pid = std::process::id();

    // Looking is not judged; opening is.
    let Lookup::Found(entry) = guard.lookup(root, name.as_encoded_bytes())? else {
        return Err("there is no such file".into());
    };
    let opened = guard.open(pid, entry.attr.node, Access::ReadWrite)?;
    let size = entry.attr.size;
    let mut content = vec![0; usize::try_from(size)?];
    let length = guard.read(opened.handle, 0, &mut content)?;
    content.truncate(length);
    let mut output = std::io::stdout();
    output.write_all(&content)?;
    guard.write(opened.handle, size, b"and more\n", Caller::Trusted)?;
    guard.release(opened.handle);

    // The project has not changed; the session says what did.
    drop(guard);
    for change in changes(&session, directory.as_fd(), Relocations::default())? {
        writeln!(output, "{change:?}")?;
    }
    Ok(())
}
