//! Serves one project: `serve PROJECT SESSION MOUNTPOINT [TRANSPORT]`. For tests and measurements; people use
//! `aegis-os mount`.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use aegis_policies::{Gate, Journal};
use aegisfs::commit::relocations;
use aegisfs::fuse::{Options, Transport, mount};
use aegisfs::guard::Guard;
use aegisfs::layout::SessionDir;
use aegisfs::overlay::Overlay;
use rustix::fs::{Mode, OFlags, open};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let (project, session, mountpoint, transport) = match arguments.as_slice() {
        [project, session, mountpoint] => (project, session, mountpoint, Transport::Auto),
        [project, session, mountpoint, transport] => {
            let name = transport.to_str().ok_or("no such transport")?;
            let transport = serde_json::from_value(name.into())?;
            (project, session, mountpoint, transport)
        }
        _ => return Err("usage: serve PROJECT SESSION MOUNTPOINT [TRANSPORT]".into()),
    };
    let session = SessionDir::new(session.into());
    std::fs::create_dir_all(session.journal())?;
    let journal = match std::fs::read_dir(session.journal())?.next() {
        Some(_) => Journal::resume(&session.journal())?,
        None => Journal::create(&session.journal())?,
    };
    let gate = Arc::new(Gate::with_defaults(Arc::new(journal), None)?);
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let project = open(Path::new(project), flags, Mode::empty())?;
    let overlay = Overlay::open(project, &session, relocations(&session)?, Arc::clone(&gate))?;
    let guard = Arc::new(Guard::new(overlay, gate, "serve".into()));
    let options = Options {
        transport,
        ..Options::default()
    };
    mount(Path::new(mountpoint), guard, options)?.wait()?;
    Ok(())
}
