//! Names what is done to the tree, asks the gate, and hands the permit on.
//!
//! It has the face of the overlay, so one reading shows that every operation is covered. What only
//! looks at names and attributes needs no permit; everything else is judged by the path, with the
//! labels of every name that the node has, here and on the host: a file that was moved or linked
//! is still the file that it was.

mod rename;

use std::fs::File;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use aegis_policies::journal::{NodeId, NodeKind};
use aegis_policies::{Actor, Effect, Gate, Kind, Label, Labels, Permit, RelPath};
use rustix::fs::{FileType, SeekFrom, StatVfs};
use rustix::io::Errno;

use crate::overlay::{
    Access, Attr, Caller, DirEntry, Durable, Entry, HandleId, Lookup, New, Opened, Overlay,
    OverlayError, Rest, Rewind, STAND_IN, SetAttr, Snapshot, XattrMode,
};

type Result<T> = std::result::Result<T, OverlayError>;

/// How often an operation is judged again because its name moved meanwhile.
const ATTEMPTS: usize = 16;

/// The face of the overlay, with the gate in front of it.
#[derive(Debug)]
pub struct Guard {
    overlay: Arc<Overlay>,
    gate: Arc<Gate>,
    agent: Arc<str>,
    /// Held for writing while something is moved: no name may appear between the moment that a
    /// directory's names are judged and the moment that it moves.
    moves: RwLock<()>,
    changes: Changes,
}

/// Whether the tree may be changed at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Changes {
    Judged,
    None,
}

impl Guard {
    /// A guard for `overlay` that acts for the agent called `agent`.
    #[must_use]
    pub fn new(overlay: Overlay, gate: Arc<Gate>, agent: Arc<str>) -> Self {
        Self {
            overlay: Arc::new(overlay),
            gate,
            agent,
            moves: RwLock::new(()),
            changes: Changes::Judged,
        }
    }

    /// The same guard for a tree that is only looked at: every change ends with EROFS, whatever the
    /// policy says.
    #[must_use]
    pub fn read_only(self) -> Self {
        Self {
            changes: Changes::None,
            ..self
        }
    }

    /// Whether the tree is only looked at.
    #[must_use]
    pub const fn is_read_only(&self) -> bool {
        matches!(self.changes, Changes::None)
    }

    /// The tree behind the guard, for what needs no permit.
    #[must_use]
    pub const fn overlay(&self) -> &Arc<Overlay> {
        &self.overlay
    }

    /// Makes the tree what it was; what it is now can be gone back to by the snapshot that is
    /// returned. Called only from threads that answer no requests.
    ///
    /// # Errors
    /// EROFS for a view that can only be read, [`OverlayError::Journal`] when it can not be put on
    /// record; the tree is then as it was.
    pub fn rewind(&self, rewind: Rewind) -> Result<Snapshot> {
        if self.is_read_only() {
            return Err(Errno::ROFS.into());
        }
        let before = self.overlay.leave()?;
        // Everything may move. Nobody is waited for meanwhile: a request may wait for this lock.
        let moving = self.moving();
        let stale = self.overlay.turn_back(rewind)?;
        drop(moving);
        self.overlay.forget_stale(&stale);
        Ok(before)
    }

    /// [`Overlay::lookup`].
    ///
    /// # Errors
    /// As there.
    pub fn lookup(&self, parent: NodeId, name: &[u8]) -> Result<Lookup> {
        self.overlay.lookup(parent, name)
    }

    /// [`Overlay::getattr`].
    ///
    /// # Errors
    /// As there.
    pub fn getattr(&self, id: NodeId) -> Result<Attr> {
        self.overlay.getattr(id)
    }

    /// [`Overlay::readlink`].
    ///
    /// # Errors
    /// As there.
    pub fn readlink(&self, id: NodeId) -> Result<Vec<u8>> {
        self.overlay.readlink(id)
    }

    /// [`Overlay::statvfs`].
    ///
    /// # Errors
    /// As there.
    pub fn statvfs(&self) -> Result<StatVfs> {
        self.overlay.statvfs()
    }

    /// [`Overlay::forget`].
    pub fn forget(&self, id: NodeId, count: u64) {
        self.overlay.forget(id, count);
    }

    /// [`Overlay::readdir`].
    ///
    /// # Errors
    /// As there.
    pub fn readdir(&self, folder: NodeId, offset: u64) -> Result<Rest> {
        self.overlay.readdir(folder, offset)
    }

    /// [`Overlay::lookup_listed`].
    ///
    /// # Errors
    /// As there.
    pub fn lookup_listed(
        &self,
        folder: NodeId,
        listed: &[DirEntry],
        add: impl FnMut(&DirEntry, Option<Entry>) -> bool,
    ) -> Result<()> {
        self.overlay.lookup_listed(folder, listed, add)
    }

    /// Opens a file: `fs.read`, `fs.write` or both.
    ///
    /// # Errors
    /// [`OverlayError::Refused`], and as for [`Overlay::open_file`].
    pub fn open(&self, pid: u32, id: NodeId, access: Access) -> Result<Opened> {
        self.again(|| {
            let permit = self.judge_access(pid, id, access)?;
            self.overlay.open_file(permit, id, access)
        })
    }

    /// Makes a file and opens it: `fs.create` and `fs.write`.
    ///
    /// # Errors
    /// [`OverlayError::Refused`], and as for [`Overlay::create`].
    pub fn create_open(
        &self,
        pid: u32,
        parent: NodeId,
        name: &[u8],
        new: New,
        access: Access,
    ) -> Result<(Entry, Opened)> {
        let entry = self.create(pid, parent, name, new)?;
        match self.open(pid, entry.attr.node, access) {
            Ok(opened) => Ok((entry, opened)),
            Err(error) => {
                self.overlay.forget(entry.attr.node, 1);
                Err(error)
            }
        }
    }

    /// Makes a file without a name and opens it: `fs.create` and `fs.write`, of a name in the
    /// directory. It is judged again when it gets its name.
    ///
    /// # Errors
    /// [`OverlayError::Refused`], and as for [`Overlay::create_nameless`].
    pub fn create_nameless(
        &self,
        pid: u32,
        parent: NodeId,
        new: &New,
        access: Access,
    ) -> Result<(Entry, Opened)> {
        self.again(|| {
            let _still = self.still();
            let path = self.overlay.child_path(parent, STAND_IN)?;
            let labels = self.gate.labels(&path);
            let write = self.judge(pid, Kind::FsWrite, &path, labels)?;
            let permit = self.judge(pid, Kind::FsCreate, &path, labels)?;
            let entry = self.overlay.create_nameless(&permit, parent, new)?;
            match self.overlay.open_file(write, entry.attr.node, access) {
                Ok(opened) => Ok((entry, opened)),
                Err(error) => {
                    self.overlay.forget(entry.attr.node, 1);
                    Err(error)
                }
            }
        })
    }

    /// Makes a node: `fs.create`, and `fs.write` for a file; a symbolic link is an `fs.link`, since
    /// what it stands for lies elsewhere.
    ///
    /// # Errors
    /// [`OverlayError::Refused`], and as for [`Overlay::create`].
    pub fn create(&self, pid: u32, parent: NodeId, name: &[u8], new: New) -> Result<Entry> {
        self.again(|| {
            let _still = self.still();
            let path = self.overlay.child_path(parent, name)?;
            let symlink = matches!(new.kind, NodeKind::Symlink(_));
            let labels = self.labels_for(&path, symlink);
            if new.kind == NodeKind::File {
                self.judge(pid, Kind::FsWrite, &path, labels)?;
            }
            let kind = if symlink {
                Kind::FsLink
            } else {
                Kind::FsCreate
            };
            let permit = self.judge(pid, kind, &path, labels)?;
            self.overlay.create(&permit, parent, name, new.clone())
        })
    }

    /// Adds a name: `fs.link`, judged with the labels of the new name and of all the others. A file
    /// that has had none is made by it: `fs.create` and `fs.write`.
    ///
    /// # Errors
    /// [`OverlayError::Refused`], and as for [`Overlay::link`].
    pub fn link(&self, pid: u32, id: NodeId, parent: NodeId, name: &[u8]) -> Result<Entry> {
        self.again(|| {
            let _still = self.still();
            let path = self.overlay.child_path(parent, name)?;
            if self.overlay.is_nameless(id) {
                let labels = self.gate.labels(&path);
                self.judge(pid, Kind::FsWrite, &path, labels)?;
                let permit = self.judge(pid, Kind::FsCreate, &path, labels)?;
                return self.overlay.link(&permit, id, parent, name);
            }
            let symlink = self.overlay.getattr(id)?.kind == FileType::Symlink;
            let labels = self.labels_for(&path, symlink).union(self.identify(id).1);
            let permit = self.judge(pid, Kind::FsLink, &path, labels)?;
            self.overlay.link(&permit, id, parent, name)
        })
    }

    /// Removes a name: `fs.remove`.
    ///
    /// # Errors
    /// [`OverlayError::Refused`], and as for [`Overlay::unlink`].
    pub fn unlink(&self, pid: u32, parent: NodeId, name: &[u8]) -> Result<()> {
        self.again(|| {
            let _still = self.still();
            let permit = self.judge_name(pid, Kind::FsRemove, parent, name)?;
            self.overlay.unlink(&permit, parent, name)
        })
    }

    /// Removes a directory: `fs.remove`.
    ///
    /// # Errors
    /// [`OverlayError::Refused`], and as for [`Overlay::rmdir`].
    pub fn rmdir(&self, pid: u32, parent: NodeId, name: &[u8]) -> Result<()> {
        self.again(|| {
            let _still = self.still();
            let permit = self.judge_name(pid, Kind::FsRemove, parent, name)?;
            self.overlay.rmdir(&permit, parent, name)
        })
    }

    /// Changes attributes: `fs.meta`, and `fs.write` for a new size.
    ///
    /// # Errors
    /// [`OverlayError::Refused`], and as for [`Overlay::setattr`].
    pub fn setattr(&self, pid: u32, id: NodeId, set: SetAttr) -> Result<Attr> {
        let kind = if set.size.is_some() {
            Kind::FsWrite
        } else {
            Kind::FsMeta
        };
        self.again(|| {
            let permit = self.judge_node(pid, kind, id)?;
            self.overlay.setattr(&permit, id, set)
        })
    }

    /// [`Overlay::xattr`].
    ///
    /// # Errors
    /// As there.
    pub fn xattr(&self, id: NodeId, name: &[u8]) -> Result<Vec<u8>> {
        self.overlay.xattr(id, name)
    }

    /// [`Overlay::xattrs`].
    ///
    /// # Errors
    /// As there.
    pub fn xattrs(&self, id: NodeId) -> Result<Vec<Vec<u8>>> {
        self.overlay.xattrs(id)
    }

    /// Sets an extended attribute: `fs.meta`.
    ///
    /// # Errors
    /// [`OverlayError::Refused`], and as for [`Overlay::set_xattr`].
    pub fn set_xattr(
        &self,
        pid: u32,
        id: NodeId,
        name: &[u8],
        value: &[u8],
        how: (XattrMode, Caller),
    ) -> Result<()> {
        self.again(|| {
            let permit = self.judge_node(pid, Kind::FsMeta, id)?;
            self.overlay.set_xattr(&permit, id, name, value, how)
        })
    }

    /// Removes an extended attribute: `fs.meta`.
    ///
    /// # Errors
    /// [`OverlayError::Refused`], and as for [`Overlay::remove_xattr`].
    pub fn remove_xattr(&self, pid: u32, id: NodeId, name: &[u8]) -> Result<()> {
        self.again(|| {
            let permit = self.judge_node(pid, Kind::FsMeta, id)?;
            self.overlay.remove_xattr(&permit, id, name)
        })
    }

    /// [`Overlay::read_at`]; judged when the handle was opened,
    /// and again when the host has moved the file since.
    ///
    /// # Errors
    /// As there.
    pub fn read(&self, handle: HandleId, offset: u64, bytes: &mut [u8]) -> Result<usize> {
        self.through(&[handle], || self.overlay.read_at(handle, offset, bytes))
    }

    /// [`Overlay::write_at`]; judged when the handle was opened,
    /// and again when the host has moved the file since.
    ///
    /// # Errors
    /// As there.
    pub fn write(&self, handle: HandleId, offset: u64, bytes: &[u8], caller: Caller) -> Result<()> {
        self.through(&[handle], || {
            self.overlay.write_at(handle, offset, bytes, caller)
        })
    }

    /// [`Overlay::changed_by`].
    ///
    /// # Errors
    /// As there.
    pub fn changed_by(&self, handle: HandleId, caller: Caller) -> Result<()> {
        self.through(&[handle], || self.overlay.changed_by(handle, caller))
    }

    /// [`Overlay::allocate`]; judged when the handle was opened,
    /// and again when the host has moved the file since.
    ///
    /// # Errors
    /// As there.
    pub fn allocate(&self, handle: HandleId, mode: u32, offset: u64, length: u64) -> Result<()> {
        self.through(&[handle], || {
            self.overlay.allocate(handle, mode, offset, length)
        })
    }

    /// [`Overlay::seek_to`].
    ///
    /// # Errors
    /// As there.
    pub fn seek(&self, handle: HandleId, position: SeekFrom) -> Result<u64> {
        self.through(&[handle], || self.overlay.seek_to(handle, position))
    }

    /// [`Overlay::copy_range`]; both handles were judged when they were opened,
    /// and are again when the host has moved a file since.
    ///
    /// # Errors
    /// As there.
    pub fn copy_range(
        &self,
        from: (HandleId, u64),
        to: (HandleId, u64),
        length: usize,
    ) -> Result<usize> {
        self.through(&[from.0, to.0], || {
            self.overlay.copy_range(from, to, length)
        })
    }

    /// [`Overlay::sync_file`].
    ///
    /// # Errors
    /// As there.
    pub fn sync(&self, handle: HandleId, what: Durable) -> Result<()> {
        self.overlay.sync_file(handle, what)
    }

    /// [`Overlay::sync_records`].
    ///
    /// # Errors
    /// As there.
    pub fn sync_records(&self) -> Result<()> {
        self.overlay.sync_records()
    }

    /// [`Overlay::release`].
    pub fn release(&self, handle: HandleId) {
        self.overlay.release(handle);
    }

    /// The host's file that a handle reads, where it will never read another: nothing is ever
    /// written here.
    #[must_use]
    pub fn unchanging_file(&self, handle: HandleId) -> Option<Arc<File>> {
        self.is_read_only()
            .then(|| self.overlay.lower_file(handle))?
    }

    /// [`Overlay::release_all`].
    pub fn release_all(&self) {
        self.overlay.release_all();
    }

    fn judge_access(&self, pid: u32, id: NodeId, access: Access) -> Result<Permit> {
        let (path, labels) = self.identify(id);
        let read = access
            .reads()
            .then(|| self.judge(pid, Kind::FsRead, &path, self.labels_to_read(id, labels)));
        let read = read.transpose()?;
        let write = access
            .writes()
            .then(|| self.judge(pid, Kind::FsWrite, &path, labels));
        write.transpose()?.or(read).ok_or(OverlayError::Stale)
    }

    /// Acts through handles. Where the host has moved a file since it was judged, that is judged anew
    /// by the name of now: an open handle is no way past the lock of a name.
    fn through<T>(
        &self,
        handles: &[HandleId],
        mut attempt: impl FnMut() -> Result<T>,
    ) -> Result<T> {
        self.again(|| {
            let done = attempt();
            if matches!(done, Err(OverlayError::Moved)) {
                handles.iter().try_for_each(|it| self.judge_anew(*it))?;
            }
            done
        })
    }

    fn judge_anew(&self, handle: HandleId) -> Result<()> {
        let (id, access, pid) = self.overlay.opened(handle)?;
        let permit = self.judge_access(pid, id, access)?;
        self.overlay.permit_anew(handle, permit)
    }

    fn judge_name(&self, pid: u32, kind: Kind, parent: NodeId, name: &[u8]) -> Result<Permit> {
        let path = self.overlay.child_path(parent, name)?;
        let labels = self.gate.labels(&path);
        self.judge(pid, kind, &path, labels)
    }

    fn judge_node(&self, pid: u32, kind: Kind, id: NodeId) -> Result<Permit> {
        let (path, labels) = self.identify(id);
        self.judge(pid, kind, &path, labels)
    }

    fn judge(&self, pid: u32, kind: Kind, path: &RelPath, labels: Labels) -> Result<Permit> {
        if self.changes == Changes::None && kind != Kind::FsRead {
            return Err(Errno::ROFS.into());
        }
        let actor = Actor {
            agent: Arc::clone(&self.agent),
            pid,
        };
        let effect = Effect::shadow(kind, path.clone(), labels);
        match self.gate.judge(&actor, effect.clone()) {
            // No policy refused: there was no room for the record. A removal makes some.
            Err(refusal) if refusal.unrecorded.is_some() && kind == Kind::FsRemove => {
                if !self.overlay.make_room() {
                    return Err(refusal.into());
                }
                Ok(self.gate.judge(&actor, effect)?)
            }
            judged => Ok(judged?),
        }
    }

    /// A path of a node, and the labels of all its names. A node without a name is judged by the
    /// one that the host has for it.
    fn identify(&self, id: NodeId) -> (RelPath, Labels) {
        let mut names = self.overlay.names(id);
        // Most are shown where the host has them; judging a name twice says nothing new.
        names.host.retain(|host| !names.shown.contains(host));
        let every = names.shown.iter().chain(&names.host);
        let labels = every.fold(Labels::NONE, |labels, path| {
            labels.union(self.gate.labels(path))
        });
        let path = names.shown.into_iter().chain(names.host).next();
        (path.unwrap_or_else(RelPath::root), labels)
    }

    /// A file that the session made itself holds nothing that it has not read before, whatever its
    /// name: `cp .env.example .env` is ordinary work.
    fn labels_to_read(&self, id: NodeId, labels: Labels) -> Labels {
        if labels.has(Label::Secret) && self.overlay.names(id).host.is_empty() {
            labels.without(Label::Secret)
        } else {
            labels
        }
    }

    /// The labels of a new name. A symbolic link among git's own files redirects git, whatever its
    /// name: it is locked.
    fn labels_for(&self, path: &RelPath, symlink: bool) -> Labels {
        let labels = self.gate.labels(path);
        if symlink && labels.has(Label::Vcs) && !labels.has(Label::VcsNested) {
            labels.with(Label::VcsLocked)
        } else {
            labels
        }
    }

    /// Judges and acts anew while the name moves between the two.
    fn again<T>(&self, mut attempt: impl FnMut() -> Result<T>) -> Result<T> {
        for _ in 1..ATTEMPTS {
            match attempt() {
                Err(OverlayError::Moved) => {}
                done => return done,
            }
        }
        attempt()
    }

    /// Keeps everything where it is.
    fn still(&self) -> RwLockReadGuard<'_, ()> {
        self.moves.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps everybody else from making names.
    fn moving(&self) -> RwLockWriteGuard<'_, ()> {
        self.moves.write().unwrap_or_else(PoisonError::into_inner)
    }
}
