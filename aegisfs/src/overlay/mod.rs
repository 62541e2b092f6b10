//! The lazy copy-on-write tree.
//!
//! [`Shadow`](shadow::Shadow) is the pure state, [`Overlay`] the live tree: the state over the
//! host's directory, with the nodes and handles that the kernel holds. A change is checked, written
//! to the journal, and only then made; everything that changes something takes a [`Permit`], and
//! acts on the very path that the permit names.
//!
//! Locks, in the order in which they are taken: `writing`, a node's backing, the shadow, the node
//! table. A thread that holds `writing` to write waits for no backing.

mod acl;
mod attr;
mod base;
mod blocks;
mod bytes;
pub mod changes;
pub mod checkpoint;
mod content;
mod copyup;
mod create;
mod error;
mod fork;
mod found;
mod handles;
mod inode;
mod io;
mod kernel;
mod lookup;
mod lower;
mod meta;
mod nameless;
pub mod past;
mod readdir;
mod reader;
mod relocations;
mod remove;
mod rename;
mod replay;
mod reserve;
mod rewind;
pub mod salvage;
mod shadow;
mod snapshot;
mod take;
pub mod usage;
mod watch;
mod xattr;

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{SystemTime, UNIX_EPOCH};

use aegis_policies::journal::{Event, NodeId, Recorded, ShadowOp, VerdictId};
use aegis_policies::{Gate, Permit, RelPath, Scope};
use dashmap::DashMap;
use rustix::fs::{AtFlags, Mode, OFlags, fstat, open, openat, statat};
use rustix::io::Errno;

pub use attr::Attr;
pub use create::New;
pub use error::OverlayError;
pub use handles::{Access, HandleId, Opened};
pub use io::Durable;
pub use kernel::{KernelCache, KnownNames};
pub use lookup::{Entry, Lookup, Names};
pub use meta::{Caller, SetAttr, SetTime};
pub use readdir::{DirEntry, Rest};
pub use reader::{ContentFile, complete};
pub use relocations::Relocations;
pub use rename::RenameMode;
pub use rewind::{Kept, Loss, Rewind};
pub use shadow::Snapshot;
pub use snapshot::{Pulse, SnapshotName, SnapshotNameError};
pub use watch::Watched;
pub use xattr::XattrMode;

pub(crate) use base::noted_base;
pub(crate) use nameless::STAND_IN;

use crate::layout::SessionDir;
use checkpoint::{Dismissed, Keeper};
use content::ContentStore;
use handles::Handle;
use inode::InodeTable;
use lower::LowerRoot;
use readdir::Listings;
use replay::Upto;
use reserve::Reserve;
use salvage::Salvage;
use shadow::{FIRST_MADE, Shadow};
use watch::Watches;

type Result<T> = std::result::Result<T, OverlayError>;

/// The project as one session sees it: the host's tree with what the session changed over it.
#[derive(Debug)]
pub struct Overlay {
    lower: LowerRoot,
    content: ContentStore,
    reserve: Reserve,
    gate: Arc<Gate>,
    shadow: RwLock<Shadow>,
    /// The shadow's generation, for those that do not hold it; changes only with `writing` and the
    /// shadow locked.
    generation: AtomicU64,
    /// Held by everybody while content is written, so that a snapshot falls between two writes.
    writing: RwLock<()>,
    /// Changes so far.
    changes: AtomicU64,
    /// Movements of a branch so far.
    commits: AtomicU64,
    inodes: InodeTable,
    handles: DashMap<u64, Arc<Handle>>,
    listings: Listings,
    next_handle: AtomicU64,
    kernel: RwLock<Option<Arc<dyn KernelCache>>>,
    keeper: Option<Keeper>,
    dismissed: Vec<Dismissed>,
    watches: Watches,
}

impl Overlay {
    /// Opens the tree of a session over the project at `project`, replaying its journal.
    /// `relocations` is what landings of the session have moved in the project and put there.
    ///
    /// # Errors
    /// [`OverlayError`] when the session's folders or its journal can not be read, or when the
    /// session lies inside the project.
    pub fn open(
        project: OwnedFd,
        session: &SessionDir,
        relocations: Relocations,
        gate: Arc<Gate>,
    ) -> Result<Self> {
        let lower = LowerRoot::new(project, relocations.clone())?;
        refuse_inside(session.root(), &lower)?;
        let replayed = replay::replay(session, &relocations, Upto::End)?;
        let keeper = Keeper::new(session, relocations, Arc::clone(gate.journal()), &replayed);
        let shadow = replayed.shadow;
        let content = ContentStore::open(session)?;
        content.collect(|key| shadow.has_content(key) || shadow.history().holds(key))?;
        content.resume(&|path| lower.open(path))?;
        Ok(Self {
            keeper: Some(keeper),
            dismissed: replayed.dismissed,
            ..Self::over(lower, content, Reserve::open(session)?, gate, shadow)
        })
    }

    /// Opens what could be saved of a damaged session, to be looked at: nothing is written to the
    /// session, and whoever serves it lets nothing be changed ([`crate::guard::Guard::read_only`]).
    /// What is read goes on record in the journal of `gate`, which is another one.
    ///
    /// # Errors
    /// As for [`Overlay::open`].
    pub fn open_salvaged(
        project: OwnedFd,
        session: &SessionDir,
        salvage: Salvage,
        gate: Arc<Gate>,
    ) -> Result<Self> {
        let lower = LowerRoot::new(project, salvage.relocations)?;
        refuse_inside(session.root(), &lower)?;
        let content = ContentStore::look(session)?;
        content.look_below(&|path| lower.open(path))?;
        let reserve = Reserve::none(session)?;
        Ok(Self::over(lower, content, reserve, gate, salvage.shadow))
    }

    fn over(
        lower: LowerRoot,
        content: ContentStore,
        reserve: Reserve,
        gate: Arc<Gate>,
        shadow: Shadow,
    ) -> Self {
        Self {
            lower,
            content,
            reserve,
            gate,
            inodes: InodeTable::new(shadow.first_free()),
            generation: AtomicU64::new(shadow.generation().0),
            writing: RwLock::default(),
            changes: AtomicU64::new(0),
            commits: AtomicU64::new(0),
            shadow: RwLock::new(shadow),
            handles: DashMap::new(),
            listings: Listings::default(),
            next_handle: AtomicU64::new(1),
            kernel: RwLock::default(),
            keeper: None,
            dismissed: Vec::new(),
            watches: Watches::default(),
        }
    }

    /// The checkpoints that could not be used when the tree was opened.
    #[must_use]
    pub fn dismissed_checkpoints(&self) -> &[Dismissed] {
        &self.dismissed
    }

    /// The number of the project's directory.
    #[must_use]
    pub fn root(&self) -> NodeId {
        let ino = self.lower.inode();
        // Numbers with the high bit, and 0 and 1, mean something else.
        if ino > 1 && ino < FIRST_MADE {
            NodeId(ino)
        } else {
            NodeId(FIRST_MADE)
        }
    }

    /// Space and inodes of the project's file system.
    ///
    /// # Errors
    /// What the host's file system said.
    pub fn statvfs(&self) -> Result<rustix::fs::StatVfs> {
        Ok(self.lower.statvfs()?)
    }

    /// Gives up the space that is kept for removals; tells whether there was any.
    pub fn make_room(&self) -> bool {
        self.reserve.release()
    }

    /// Whether `mountpoint` lies inside the project, where a mount of this tree would hold itself.
    ///
    /// # Errors
    /// When the directories above `mountpoint` can not be read.
    pub fn holds(&self, mountpoint: &Path) -> Result<bool> {
        match refuse_inside(mountpoint, &self.lower) {
            Err(OverlayError::SessionInsideProject) => Ok(true),
            Err(error) => Err(error),
            Ok(()) => Ok(false),
        }
    }

    // A thread that panicked left the state whole: changes to it can not fail half way.
    fn read(&self) -> RwLockReadGuard<'_, Shadow> {
        self.shadow.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Shadow> {
        self.shadow.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes an operation to the journal, then makes it. Nothing has changed when this fails.
    fn record(&self, shadow: &mut Shadow, permit: &Permit, operation: ShadowOp) -> Result<()> {
        self.reserve.begin();
        let prepared = shadow
            .prepare(operation)
            .map_err(|misfit| OverlayError::Misfit(misfit.0))?;
        let recorded = self.append(permit, prepared.operation())?;
        self.note_change(prepared.operation());
        // The time of the record, so that a replay gives the very same tree.
        let at = i64::try_from(recorded.at).unwrap_or(i64::MAX);
        if let Some(orphan) = shadow.commit(prepared, at) {
            self.collect(shadow, orphan);
        }
        self.remove_freed(shadow);
        Ok(())
    }

    /// Removes the content that nothing needs any more.
    fn remove_freed(&self, shadow: &mut Shadow) {
        for (id, generation) in shadow.take_freed() {
            self.content.remove(id, generation);
            self.reserve.refill();
        }
    }

    /// Appends to the journal. On a full disk a removal may use up the reserve: without it nothing
    /// could be removed, because the removal could not be recorded.
    fn append(&self, permit: &Permit, operation: &ShadowOp) -> Result<Recorded> {
        let append = || self.note(permit, Event::Shadow(operation.clone()));
        match append() {
            Err(error) if is_full(error.errno()) => match operation {
                ShadowOp::Remove { .. } if self.reserve.release() => append(),
                _ => Err(error),
            },
            done => done,
        }
    }

    /// Writes an event to the journal.
    fn note(&self, permit: &Permit, event: Event) -> Result<Recorded> {
        let recorded = self.gate.record(permit, event)?;
        if let Some(keeper) = &self.keeper {
            keeper.note(recorded.bytes);
        }
        Ok(recorded)
    }

    /// Writes to the journal what no agent did.
    fn note_own(&self, event: Event) -> Result<Recorded> {
        let journal = self.gate.journal();
        let recorded = journal.append_stamped(0, VerdictId::default(), event)?;
        if let Some(keeper) = &self.keeper {
            keeper.note(recorded.bytes);
        }
        Ok(recorded)
    }

    /// Drops a node that has no name once the kernel holds it no longer, and its content.
    fn collect(&self, shadow: &mut Shadow, id: NodeId) {
        if self.inodes.find(id).is_none() && shadow.drop_orphan(id) {
            self.remove_freed(shadow);
            self.reserve.refill();
        }
    }

    /// The kernel dropped `count` references to a node.
    pub fn forget(&self, id: NodeId, count: u64) {
        if id != self.root() && self.inodes.forget(id, count).is_some() {
            self.watches.release(id);
            let orphan = self.read().node(id).is_some_and(shadow::Node::is_orphan);
            if orphan {
                self.collect(&mut self.write(), id);
            }
        }
    }
}

/// Whether there is no room on the disk, or none for this user.
fn is_full(errno: Errno) -> bool {
    matches!(errno, Errno::NOSPC | Errno::DQUOT)
}

/// Checks that a permit is for this path: the judgement was about a name, and the act must be too.
fn covers(permit: &Permit, path: &RelPath) -> Result<()> {
    match &permit.effect().scope {
        Scope::Shadow { path: judged, .. } if judged == path => Ok(()),
        _ => Err(OverlayError::Moved),
    }
}

/// Nanoseconds since the Unix epoch.
fn now() -> i64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

/// A tree that held its own session, or its own mount, would answer itself for ever.
fn refuse_inside(directory: &Path, project: &LowerRoot) -> Result<()> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut at = open(directory, flags, Mode::empty())?;
    let mut here = fstat(&at)?;
    loop {
        if (here.st_dev, here.st_ino) == (project.device(), project.inode()) {
            return Err(OverlayError::SessionInsideProject);
        }
        let above = statat(&at, "..", AtFlags::empty())?;
        if (above.st_dev, above.st_ino) == (here.st_dev, here.st_ino) {
            return Ok(());
        }
        at = openat(&at, "..", flags, Mode::empty())?;
        here = above;
    }
}
