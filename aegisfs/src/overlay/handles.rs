//! Open files. All handles of a node share its backing, so one opened before copy-up sees what is
//! written after it.

use std::fs::File;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use aegis_policies::Permit;
use aegis_policies::journal::{Event, NodeId};
use rustix::fs::fstat;
use rustix::io::Errno;

use super::attr::{Attr, Stat, Version};
use super::blocks::Body;
use super::found::Found;
use super::inode::{Backing, Inode};
use super::{Overlay, OverlayError, Result, covers};

/// Names an open file or directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HandleId(pub u64);

/// What a handle may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Read only.
    Read,
    /// Write only.
    Write,
    /// Both.
    ReadWrite,
}

/// An opened file.
#[derive(Clone, Copy, Debug)]
pub struct Opened {
    /// The handle.
    pub handle: HandleId,
    /// Whether the pages that the kernel has of the file are still right.
    pub keep_cache: bool,
}

/// An open file.
#[derive(Debug)]
pub(crate) struct Handle {
    pub(crate) inode: Arc<Inode>,
    pub(crate) access: Access,
    /// For the name that it was opened by, or the one that was judged since.
    permit: RwLock<Arc<Permit>>,
    /// Which of the inodes that the host has had with the number it was opened for.
    generation: u32,
    /// Bytes written.
    pub(crate) written: AtomicU64,
}

/// The version of content that only changes through the kernel.
const OWN: Version = (0, 0, 0, 0, 0);

impl Access {
    /// Whether it reads.
    #[must_use]
    pub const fn reads(self) -> bool {
        matches!(self, Self::Read | Self::ReadWrite)
    }

    /// Whether it writes.
    #[must_use]
    pub const fn writes(self) -> bool {
        matches!(self, Self::Write | Self::ReadWrite)
    }
}

impl Overlay {
    /// Opens a regular file. Nothing is copied: that waits for the first write.
    ///
    /// # Errors
    /// ESTALE when the host replaced it, EISDIR, ELOOP, EACCES when the host lets nobody read it,
    /// [`OverlayError::Moved`] when the permit is for another path.
    pub fn open_file(&self, permit: Permit, id: NodeId, access: Access) -> Result<Opened> {
        let inode = self.inodes.find(id).ok_or(OverlayError::Stale)?;
        let generation = inode.generation();
        let mut backing = inode
            .backing
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        let path = {
            let shadow = self.read();
            let found = self.locate_open(&shadow, id, &backing)?;
            if let Some(found) = &found {
                self.check_file(&shadow, found)?;
            }
            if let Some(found) = &found {
                self.renew_backing(&shadow, (&inode, &permit), found, &mut backing)?;
            }
            self.named(&shadow, &permit, &found.unwrap_or(Found::Missing), id)?
        };
        let seen = remember_version(&inode, &backing)?;
        if !seen.attributes {
            self.take_back(&inode);
        }
        if access.reads()
            && let Some(path) = path
            && inode.first_read(permit.actor().pid)
        {
            self.note(&permit, Event::Read { path })?;
        }
        inode.opens.fetch_add(1, Ordering::Relaxed);
        drop(backing);
        let handle = self.next_handle.fetch_add(1, Ordering::Relaxed);
        let written = AtomicU64::new(0);
        self.handles.insert(
            handle,
            Arc::new(Handle {
                inode,
                access,
                permit: RwLock::new(Arc::new(permit)),
                generation,
                written,
            }),
        );
        Ok(Opened {
            handle: HandleId(handle),
            keep_cache: seen.attributes && seen.pages,
        })
    }

    /// Makes the kernel ask for attributes again: the host has changed the file since it was told,
    /// and no event said so (a store through a mapping raises none, inotify(7)).
    fn take_back(&self, inode: &Inode) {
        inode.shown.clear();
        if let Some(kernel) = self.kernel() {
            kernel.forget_attributes(inode.id);
        }
    }

    /// The host's file that a handle reads, opened for reading only; `None` when what it reads is
    /// the session's, in part or as a whole.
    #[must_use]
    pub fn lower_file(&self, handle: HandleId) -> Option<Arc<File>> {
        let handle = self.handle(handle).ok()?;
        let backing = &handle.inode.backing;
        match &*backing.read().unwrap_or_else(PoisonError::into_inner) {
            Backing::Lower(file) if !handle.access.writes() => Some(Arc::clone(file)),
            _ => None,
        }
    }

    /// Closes a handle; one that wrote leaves a record of how much.
    pub fn release(&self, handle: HandleId) {
        let Some((_, handle)) = self.handles.remove(&handle.0) else {
            return;
        };
        let written = handle.written.load(Ordering::Relaxed);
        if written > 0 {
            self.record_written(&handle, written);
        }
        let inode = &handle.inode;
        let mut backing = inode
            .backing
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        if inode.opens.fetch_sub(1, Ordering::Relaxed) == 1 {
            *backing = Backing::Closed;
        }
        drop(backing);
        self.forget(inode.id, 0);
    }

    /// Closes every handle, of files and of directories.
    pub fn release_all(&self) {
        let open: Vec<u64> = self.handles.iter().map(|handle| *handle.key()).collect();
        for handle in open {
            self.release(HandleId(handle));
        }
        self.listings.clear();
    }

    pub(super) fn handle(&self, handle: HandleId) -> Result<Arc<Handle>> {
        let handle = self.handles.get(&handle.0).map(|it| Arc::clone(&it));
        let handle = handle.ok_or(Errno::BADF)?;
        if handle.generation != handle.inode.generation() {
            // The host has given the number to another file, which this was not opened for.
            return Err(OverlayError::Stale);
        }
        Ok(handle)
    }

    /// What a handle was opened for: the node, how, and by which process.
    ///
    /// # Errors
    /// EBADF, ESTALE when the host has given the number to another file.
    pub fn opened(&self, handle: HandleId) -> Result<(NodeId, Access, u32)> {
        let handle = self.handle(handle)?;
        Ok((handle.inode.id, handle.access, handle.permit().actor().pid))
    }

    /// Gives a handle a permit for what its file is called now.
    ///
    /// # Errors
    /// As for [`Overlay::opened`].
    pub fn permit_anew(&self, handle: HandleId, permit: Permit) -> Result<()> {
        let handle = self.handle(handle)?;
        let mut held = handle
            .permit
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        *held = Arc::new(permit);
        Ok(())
    }

    /// Attributes of an open file that no name leads to any more.
    pub(super) fn attr_of_open(&self, id: NodeId) -> Option<Attr> {
        let inode = self.inodes.find(id)?;
        let backing = inode.backing.try_read().ok()?;
        let stat = backing.body()?.stat().ok()?;
        Some(Attr::of_lower(id, &stat, None))
    }

    /// Finds a node; one that is already open may have lost its name to the host.
    fn locate_open(
        &self,
        shadow: &super::shadow::Shadow,
        id: NodeId,
        backing: &Backing,
    ) -> Result<Option<Found>> {
        match self.locate(shadow, id) {
            Err(OverlayError::Stale) if !matches!(backing, Backing::Closed) => Ok(None),
            located => located.map(Some),
        }
    }

    /// Makes the backing what the shadow says that it is. A file of the host's is opened by the name
    /// that the permit is for.
    fn renew_backing(
        &self,
        shadow: &super::shadow::Shadow,
        (inode, permit): (&Inode, &Permit),
        found: &Found,
        backing: &mut Backing,
    ) -> Result<()> {
        let generation = shadow.generation();
        let content = found.id().and_then(|id| shadow.node(id)?.content);
        let right = match (&*backing, content) {
            (Backing::Closed, _) => false,
            (Backing::Lower(_), content) => content.is_none(),
            (Backing::Upper(_, of), content) => content == Some(*of),
        };
        if !right {
            if let Found::Lower(lower) = found {
                let path = shadow.shown(&lower.path).ok_or(OverlayError::Stale)?;
                covers(permit, &path)?;
            }
            *backing = self.open_backing(shadow, found)?;
        }
        inode.seen.store(generation.0, Ordering::Release);
        Ok(())
    }

    /// What the handles of a node read: a snapshot or a rewind may have changed it.
    pub(super) fn shared(&self, handle: &Handle) -> Result<Body> {
        let inode = &handle.inode;
        {
            let backing = inode.backing.read().unwrap_or_else(PoisonError::into_inner);
            if inode.seen.load(Ordering::Acquire) == self.generation().0 {
                return backing.body().ok_or(Errno::BADF.into());
            }
        }
        let mut backing = inode
            .backing
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        let shadow = self.read();
        match self.locate_open(&shadow, inode.id, &backing)? {
            Some(found) => {
                self.renew_backing(&shadow, (inode, &handle.permit()), &found, &mut backing)?
            }
            None => inode.seen.store(shadow.generation().0, Ordering::Release),
        }
        backing.body().ok_or(Errno::BADF.into())
    }

    fn open_backing(&self, shadow: &super::shadow::Shadow, found: &Found) -> Result<Backing> {
        match found {
            Found::Lower(lower) => Ok(Backing::Lower(Arc::new(self.lower.open(&lower.path)?))),
            Found::Node(id) => {
                let node = shadow.node(*id).ok_or(OverlayError::Stale)?;
                match (node.content, &node.origin) {
                    (Some(generation), _) => Ok(Backing::Upper(
                        self.content.body(*id, generation)?,
                        generation,
                    )),
                    (None, Some(origin)) => Ok(Backing::Lower(Arc::new(
                        self.lower.open(&origin.lower.path)?,
                    ))),
                    (None, None) => Err(OverlayError::Stale),
                }
            }
            Found::Missing => Err(OverlayError::Stale),
        }
    }

    fn record_written(&self, handle: &Handle, bytes: u64) {
        let path = self.names(handle.inode.id).shown.into_iter().next();
        let (Some(path), Ok(attr)) = (path, self.getattr(handle.inode.id)) else {
            return;
        };
        let event = Event::Written {
            path,
            bytes,
            size: attr.size,
        };
        // The writes themselves are done; a full journal refuses the next change instead.
        let _ = self.note(&handle.permit(), event);
    }
}

impl Handle {
    /// The right to do what it does, to the file by one of its names.
    pub(crate) fn permit(&self) -> Arc<Permit> {
        let permit = self.permit.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&permit)
    }
}

impl Backing {
    /// The bytes that are read through it.
    pub(crate) fn body(&self) -> Option<Body> {
        match self {
            Self::Closed => None,
            Self::Lower(file) => Some(Body::Whole(Arc::clone(file))),
            Self::Upper(body, _) => Some(body.clone()),
        }
    }
}

/// Notes which version the kernel is about to cache.
fn remember_version(inode: &Inode, backing: &Backing) -> Result<Seen> {
    let version = match backing {
        Backing::Closed => return Err(OverlayError::Stale),
        Backing::Lower(file) => Stat::from(fstat(file.as_ref())?).version(),
        Backing::Upper(..) => OWN,
    };
    let seen = Seen {
        attributes: matches!(backing, Backing::Upper(..)) || inode.shown.is(version),
        pages: inode.cached.is(version),
    };
    inode.cached.set(version);
    Ok(seen)
}

/// What the kernel has of the version that is opened.
#[derive(Clone, Copy, Debug)]
struct Seen {
    attributes: bool,
    pages: bool,
}
