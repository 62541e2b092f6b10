//! Making a change that has been found to fit. It can not fail: the live tree has written the record
//! by now.

use std::collections::BTreeMap;

use aegis_policies::journal::{
    Baseline, Displaced, FirstTouch, Generation, LowerFile, NodeId, NodeKind, ShadowOp,
};

use super::super::acl::{ACCESS, Acl};
use super::fit::Prepared;
use super::{Child, FIRST_MADE, Folder, FolderKey, Node, Origin, Place, Shadow, Touched};

impl Shadow {
    /// Carries out a prepared operation that happened `at` (nanoseconds since the Unix epoch).
    /// Returns the node that lost its last name.
    pub(crate) fn commit(&mut self, prepared: Prepared, at: i64) -> Option<NodeId> {
        let Prepared {
            operation,
            place,
            from,
        } = prepared;
        self.history.note_change();
        match operation {
            ShadowOp::CopyUp {
                node,
                lower,
                baseline,
                ..
            } => {
                self.copy_up(node, place, lower, baseline);
            }
            ShadowOp::Create {
                node,
                kind,
                mode,
                uid,
                gid,
                ..
            } => {
                if let Some(place) = place {
                    let generation = self.generation();
                    let made = Node::made(kind, generation, [mode, uid, gid], at);
                    self.create(place, node, made, at);
                }
            }
            ShadowOp::Link {
                node, first_touch, ..
            } => {
                self.touch(node, from, first_touch);
                if let Some(place) = place {
                    self.link(place, node, at);
                }
            }
            ShadowOp::Remove {
                node, first_touch, ..
            } => {
                self.touch(node, None, first_touch);
                return place.and_then(|place| self.remove(&place, node, at));
            }
            ShadowOp::Rename {
                node,
                first_touch,
                displaced,
                exchange,
                ..
            } => {
                self.touch(node, from.clone(), first_touch);
                return match (from, place) {
                    (Some(from), Some(to)) => self.rename(&from, to, node, displaced, exchange, at),
                    _ => None,
                };
            }
            ShadowOp::SetAttr {
                node,
                first_touch,
                mode,
                uid,
                gid,
                atime,
                mtime,
                ..
            } => {
                self.touch(node, place, first_touch);
                self.set_attributes(node, [mode, uid, gid], atime, mtime, at);
            }
            ShadowOp::SetXattr {
                node,
                first_touch,
                name,
                value,
                ..
            } => {
                self.touch(node, place, first_touch);
                self.set_xattr(node, name, value, at);
            }
            ShadowOp::Fork {
                node, generation, ..
            } => {
                if let Some(before) = self.renew_content(node, generation) {
                    self.history.leave((node, before));
                    self.history.release((node, before));
                }
            }
            ShadowOp::Name {
                node,
                mode,
                uid,
                gid,
                generation,
                xattrs,
                ..
            } => {
                let mut named = Node::made(NodeKind::File, generation, [mode, uid, gid], at);
                let xattrs = xattrs.into_iter();
                named.xattrs = xattrs.map(|(name, value)| (name, Some(value))).collect();
                if let Some(place) = place {
                    self.create(place, node, named, at);
                }
            }
            _ => {}
        }
        None
    }

    /// Makes a file without a name; there is none to record it under.
    pub(crate) fn make_nameless(&mut self, id: NodeId, [mode, uid, gid]: [u32; 3], at: i64) {
        let made = Node::made(NodeKind::File, self.generation(), [mode, uid, gid], at);
        self.nodes.insert(id, Node { links: 0, ..made });
    }

    /// Gives a node content of a generation; that which it had until now is another's business.
    /// The content file carries the times from now on.
    pub(super) fn renew_content(
        &mut self,
        id: NodeId,
        generation: Generation,
    ) -> Option<Generation> {
        let node = self.nodes.get_mut(&id)?;
        node.atime = None;
        node.mtime = None;
        node.content.replace(generation)
    }

    /// Makes a node of the host's tree known, and its name with it.
    fn touch(&mut self, id: NodeId, place: Option<Place>, first_touch: FirstTouch) {
        let Some((lower, baseline)) = first_touch else {
            return;
        };
        self.drop_orphan(id);
        if lower.links > 1 {
            self.aliases.insert((lower.dev, lower.ino), id);
        }
        if baseline.kind == NodeKind::Directory {
            self.lower_folders.insert(lower.path.clone(), id);
        }
        self.nodes.insert(id, Node::touched(lower, baseline));
        self.note_id(id);
        if let Some(place) = place {
            self.attach(place, id);
        }
    }

    fn copy_up(&mut self, id: NodeId, place: Option<Place>, lower: LowerFile, baseline: Baseline) {
        if self.node(id).is_none() {
            self.touch(id, place, Some((lower.clone(), baseline.clone())));
        }
        if let Some(before) = self.removed.get_mut(&lower.path) {
            *before = baseline.clone();
        }
        if let Some(node) = self.nodes.get_mut(&id) {
            node.origin = Some(Origin { lower, baseline });
        }
        let generation = self.generation();
        self.renew_content(id, generation);
    }

    fn create(&mut self, place: Place, id: NodeId, node: Node, at: i64) {
        let folder = node.is_folder();
        self.nodes.insert(id, node);
        self.note_id(id);
        self.changed_in(&place.folder, i64::from(folder), at);
        self.attach(place, id);
    }

    fn link(&mut self, place: Place, id: NodeId, at: i64) {
        self.changed_in(&place.folder, 0, at);
        self.attach(place, id);
        if let Some(node) = self.nodes.get_mut(&id) {
            node.links += 1;
            node.changed = at;
        }
    }

    fn remove(&mut self, place: &Place, id: NodeId, at: i64) -> Option<NodeId> {
        self.detach(place, id, at);
        let node = self.nodes.get_mut(&id)?;
        node.changed = at;
        node.links = if node.is_folder() {
            0
        } else {
            node.links.saturating_sub(1)
        };
        let orphan = node.is_orphan().then_some(id);
        let content = node.content;
        let folder = node.folder_key(id);
        if let (Some(id), Some(content)) = (orphan, content) {
            self.history.leave((id, content));
        }
        self.changed_in(&place.folder, -i64::from(folder.is_some()), at);
        if let Some(folder) = folder {
            self.folders.remove(&folder);
            if let FolderKey::Lower(path) = &folder {
                self.lower_folders.remove(path);
            }
        }
        orphan
    }

    fn rename(
        &mut self,
        from: &Place,
        to: Place,
        id: NodeId,
        displaced: Option<Displaced>,
        exchange: bool,
        at: i64,
    ) -> Option<NodeId> {
        let mut orphan = None;
        let mut other = None;
        let target = to.folder.clone();
        if let Some(displaced) = displaced {
            let place = exchange.then(|| to.clone());
            self.touch(displaced.node, place, displaced.first_touch);
            if exchange {
                self.detach(&to, displaced.node, at);
                other = Some(displaced.node);
            } else {
                orphan = self.remove(&to, displaced.node, at);
            }
        }
        self.detach(from, id, at);
        self.arrive(&from.folder, to, id, at);
        if let Some(other) = other {
            self.arrive(&target, from.clone(), other, at);
        }
        orphan
    }

    /// Gives a node that left a directory its new name.
    fn arrive(&mut self, left: &FolderKey, to: Place, id: NodeId, at: i64) {
        let folder = i64::from(self.node(id).is_some_and(Node::is_folder));
        self.changed_in(left, -folder, at);
        self.changed_in(&to.folder, folder, at);
        self.attach(to, id);
        if let Some(node) = self.nodes.get_mut(&id) {
            node.changed = at;
        }
    }

    /// Changes attributes of a node; without a record only for one that has no name.
    pub(crate) fn set_attributes(
        &mut self,
        id: NodeId,
        [mode, uid, gid]: [Option<u32>; 3],
        atime: Option<i64>,
        mtime: Option<i64>,
        at: i64,
    ) {
        let generation = self.generation();
        let Some(node) = self.nodes.get_mut(&id) else {
            return;
        };
        node.mode = mode.or(node.mode);
        node.uid = uid.or(node.uid);
        node.gid = gid.or(node.gid);
        node.changed = at;
        // Content of an earlier generation belongs to a snapshot, and its times with it.
        if node.content == Some(generation) {
            return;
        }
        node.atime = atime.or(node.atime);
        match (node.folder_key(id), mtime) {
            (Some(key), Some(mtime)) => {
                self.folders.entry(key).or_default().touched = Some(Touched { mtime, at });
            }
            (None, Some(_)) => node.mtime = mtime,
            (_, None) => {}
        }
    }

    /// Changes an extended attribute; without a record only for a node that has no name. A list of who
    /// may access a node sets its permission bits as well.
    pub(crate) fn set_xattr(&mut self, id: NodeId, name: Vec<u8>, value: Option<Vec<u8>>, at: i64) {
        let Some(node) = self.nodes.get_mut(&id) else {
            return;
        };
        let list = value.as_deref().filter(|_| name == ACCESS);
        if let Some(list) = list.and_then(Acl::parse) {
            let before = node.origin.as_ref().map(|origin| origin.baseline.mode);
            let mode = node.mode.or(before).unwrap_or(0);
            node.mode = Some(mode & !0o777 | list.mode());
        }
        node.xattrs.insert(name, value);
        node.changed = at;
    }

    /// Makes a name lead to a node. A node that comes home is not missing there any more.
    fn attach(&mut self, place: Place, id: NodeId) {
        if let Some(lower) = place.lower()
            && self
                .node(id)
                .and_then(|node| node.origin.as_ref())
                .is_some_and(|origin| origin.lower.path == lower)
        {
            self.removed.remove(&lower);
        }
        let folder = self.folders.entry(place.folder.clone()).or_default();
        folder.children.insert(place.name.clone(), Child::Node(id));
        if let Some(node) = self.nodes.get_mut(&id) {
            node.names.push(place);
        }
    }

    /// Takes a name from a node. What the host has there must not show through again; what it
    /// never had needs no whiteout, so a name that the host makes later is seen. What landed there,
    /// the host has.
    fn detach(&mut self, place: &Place, id: NodeId, at: i64) {
        let explicit = self.child(&place.folder, &place.name).is_some();
        if let Some(node) = self.nodes.get_mut(&id) {
            node.names.retain(|name| name != place);
        }
        let lower = place.lower();
        if let (Some(lower), Some(node)) = (&lower, self.nodes.get(&id))
            && let Some(origin) = &node.origin
            && (!explicit || origin.lower.path == *lower)
        {
            self.removed
                .entry(lower.clone())
                .or_insert_with(|| origin.baseline.clone());
        }
        let hidden = lower.is_some_and(|lower| {
            self.removed.contains_key(&lower) || self.relocations.has_landed(&lower, at)
        });
        let folder = self.folders.entry(place.folder.clone()).or_default();
        if hidden {
            folder.children.insert(place.name.clone(), Child::Hidden);
        } else {
            folder.children.remove(&place.name);
        }
    }

    fn changed_in(&mut self, key: &FolderKey, subfolders: i64, at: i64) {
        let folder: &mut Folder = self.folders.entry(key.clone()).or_default();
        folder.touched = Some(Touched { mtime: at, at });
        folder.subfolders += subfolders;
    }

    fn note_id(&mut self, id: NodeId) {
        if id.0 >= FIRST_MADE {
            self.next_made = self.next_made.max(id.0.saturating_add(1));
        }
    }
}

impl Node {
    fn made(kind: NodeKind, generation: Generation, [mode, uid, gid]: [u32; 3], at: i64) -> Self {
        let content = (kind == NodeKind::File).then_some(generation);
        let time = content.is_none().then_some(at);
        Self {
            links: 1,
            content,
            mode: Some(mode),
            uid: Some(uid),
            gid: Some(gid),
            atime: time,
            mtime: time,
            changed: at,
            ..Self::blank(kind)
        }
    }

    fn touched(lower: LowerFile, baseline: Baseline) -> Self {
        Self {
            links: lower.links,
            origin: Some(Origin {
                lower,
                baseline: baseline.clone(),
            }),
            ..Self::blank(baseline.kind)
        }
    }

    fn blank(kind: NodeKind) -> Self {
        Self {
            kind,
            origin: None,
            mode: None,
            uid: None,
            gid: None,
            atime: None,
            mtime: None,
            changed: 0,
            xattrs: BTreeMap::new(),
            names: Vec::new(),
            links: 1,
            content: None,
        }
    }
}
