//! What was put aside: snapshots, and the content that only they hold. All of it follows from the
//! entries of the journal alone, so every replay keeps and drops the same.

use std::collections::BTreeMap;

use aegis_policies::journal::{Generation, NodeId, Seq, SnapshotCause};
use serde::{Deserialize, Serialize};

use super::thinning;

/// A content file: the node, and the generation in which it was made.
pub(crate) type ContentKey = (NodeId, Generation);

/// A position of the journal that can be gone back to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// The number of its entry.
    pub seq: Seq,
    /// When it was taken, in nanoseconds since the Unix epoch.
    pub at: u64,
    /// What a person called it.
    pub name: Option<String>,
    /// Why it was taken.
    pub cause: SnapshotCause,
    /// The generation that it ended.
    pub(crate) generation: Generation,
}

/// Generations in which content was part of the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Span {
    from: Generation,
    until: Generation,
}

/// The snapshots, and what they hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct History {
    generation: Generation,
    /// The generation that began with the last rewind: nothing of the tree has been there without a
    /// break since before.
    line: Generation,
    snapshots: Vec<Snapshot>,
    /// Whether anything has changed since the newest of them.
    changed: bool,
    /// Content that is, or was for a while, not part of the tree, and that a snapshot holds.
    held: BTreeMap<ContentKey, Vec<Span>>,
    /// Content that nothing needs any more.
    freed: Vec<ContentKey>,
}

impl History {
    pub(crate) const fn generation(&self) -> Generation {
        self.generation
    }

    /// Those that are kept, oldest first.
    pub(crate) fn snapshots(&self) -> &[Snapshot] {
        &self.snapshots
    }

    /// Whether the tree has changed since the last snapshot. Content can not without a record: it
    /// is copied first.
    pub(crate) const fn has_changed(&self) -> bool {
        self.changed
    }

    /// Notes that the tree has changed.
    pub(crate) const fn note_change(&mut self) {
        self.changed = true;
    }

    /// Whether a snapshot holds content that is not part of the tree.
    pub(crate) fn holds(&self, key: &ContentKey) -> bool {
        self.held.contains_key(key)
    }

    /// Whether a snapshot holds content that is part of the tree now, or was before.
    pub(crate) fn covers(&self, key: &ContentKey) -> bool {
        self.holds(key) || self.any_in(self.span(key))
    }

    /// The snapshots that have content; `live` tells whether the tree has it.
    pub(crate) fn holders(&self, key: &ContentKey, live: bool) -> impl Iterator<Item = &Snapshot> {
        let now = live.then(|| self.span(key));
        let before = self.held.get(key).into_iter().flatten().copied();
        let spans: Vec<Span> = before.chain(now).collect();
        let has = move |snapshot: &&Snapshot| spans.iter().any(|span| span.has(snapshot));
        self.snapshots.iter().filter(has)
    }

    /// Ends the generation with a snapshot; `live` are the content files of the tree.
    pub(crate) fn put_aside(
        &mut self,
        seq: Seq,
        at: u64,
        name: Option<String>,
        cause: SnapshotCause,
        live: impl Fn(&ContentKey) -> bool,
    ) -> Snapshot {
        let snapshot = Snapshot {
            seq,
            at,
            name,
            cause,
            generation: self.generation,
        };
        self.snapshots.push(snapshot.clone());
        self.changed = false;
        self.generation = self.generation.next();
        self.thin(cause, live);
        snapshot
    }

    /// Ends the line: all content of the tree leaves it. What the tree becomes is another's.
    pub(crate) fn turn(&mut self, content: impl Iterator<Item = ContentKey>) {
        let next = self.generation.next();
        for key in content {
            self.hold(key, self.span(&key));
        }
        self.generation = next;
        self.line = next;
        self.changed = true;
    }

    /// Content left the tree.
    pub(crate) fn leave(&mut self, key: ContentKey) {
        self.hold(key, self.span(&key));
    }

    /// Nobody uses content any more; it goes when no snapshot holds it.
    pub(crate) fn release(&mut self, key: ContentKey) {
        if !self.holds(&key) {
            self.freed.push(key);
        }
    }

    /// The content that nothing needs any more; asked for once.
    pub(crate) fn take_freed(&mut self) -> Vec<ContentKey> {
        std::mem::take(&mut self.freed)
    }

    /// Since when content of the tree has been in it.
    fn span(&self, key: &ContentKey) -> Span {
        Span {
            from: key.1.max(self.line),
            until: self.generation,
        }
    }

    fn any_in(&self, span: Span) -> bool {
        self.snapshots.iter().any(|snapshot| span.has(snapshot))
    }

    fn hold(&mut self, key: ContentKey, span: Span) {
        if self.any_in(span) {
            self.held.entry(key).or_default().push(span);
        }
    }

    /// Drops the snapshots that make room for the newest one, and what only they held.
    fn thin(&mut self, cause: SnapshotCause, live: impl Fn(&ContentKey) -> bool) {
        let before = self.snapshots.len();
        while let Some(place) = thinning::surplus(&self.snapshots, cause) {
            self.snapshots.remove(place);
        }
        if self.snapshots.len() == before {
            return;
        }
        let snapshots = &self.snapshots;
        let freed = &mut self.freed;
        self.held.retain(|key, spans| {
            spans.retain(|span| snapshots.iter().any(|snapshot| span.has(snapshot)));
            if spans.is_empty() && !live(key) {
                freed.push(*key);
            }
            !spans.is_empty()
        });
    }
}

impl Span {
    /// Whether a snapshot was taken meanwhile.
    fn has(&self, snapshot: &Snapshot) -> bool {
        self.from <= snapshot.generation && snapshot.generation < self.until
    }
}
