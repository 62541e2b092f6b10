//! What the agent changed, as values that the commit pipeline starts from.

use std::collections::{BTreeMap, HashMap};
use std::os::fd::BorrowedFd;
use std::path::PathBuf;

use aegis_policies::journal::{Baseline, NodeId, NodeKind};

use aegis_policies::{Labeler, RelPath, Repository};
use rustix::fs::FileType;
use rustix::io::Errno;

use super::content::file_name;
use super::error::OverlayError;
use super::found::stands_alone;
use super::lower::LowerRoot;
use super::relocations::Relocations;
use super::replay::{self, Upto};
use super::shadow::{FolderKey, Node, Shadow};
use crate::layout::SessionDir;

/// Lists every name whose meaning differs from what the host had when the agent first touched it,
/// parents before what is in them. Of a moved directory everything in it is listed, with what the
/// host has there now; of a removed one, what the agent saw removed and not what the host made
/// later. What a landing put on the host and the agent has removed since is listed with what the
/// host has there now.
///
/// It reads the journal and the two trees and changes nothing; `relocations` is what landings of the
/// session have moved in the project and put there. Of a session that is live the result
/// is one moment's.
///
/// # Errors
/// [`OverlayError`] when the journal or the project can not be read.
pub fn changes(
    session: &SessionDir,
    project: BorrowedFd<'_>,
    relocations: Relocations,
) -> Result<Vec<Change>, OverlayError> {
    let shadow = replay::replay(session, &relocations, Upto::End)?.shadow;
    of_shadow(&shadow, session, project, &relocations)
}

/// [`changes`] of a state that has been replayed.
pub(crate) fn of_shadow(
    shadow: &Shadow,
    session: &SessionDir,
    project: BorrowedFd<'_>,
    relocations: &Relocations,
) -> Result<Vec<Change>, OverlayError> {
    let project = || {
        let project = project.try_clone_to_owned();
        project.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
    };
    // By the names that it has now: landings are recorded with those.
    let present = LowerRoot::new(project()?, Relocations::default())?;
    let lower = LowerRoot::new(project()?, relocations.clone())?;
    let mut names = Names {
        shadow,
        lower: &lower,
        relocations,
        session,
        found: BTreeMap::new(),
    };
    for (path, baseline) in shadow.removed() {
        names.gone(path, baseline);
    }
    for (id, node) in shadow.nodes() {
        names.add_node(id, node)?;
    }
    names.add_aliases()?;
    for path in relocations.landed() {
        names.add_landed(path, &present);
    }
    Ok(names.into_changes())
}

/// One name whose meaning differs from what the host had when the agent first touched it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The name.
    pub path: RelPath,
    /// What the host had there at first touch; `None` when the name did not exist.
    pub before: Option<Baseline>,
    /// What the shadow has there now; `None` when the name is gone.
    pub after: Option<After>,
    /// The host's name of the node that was moved here.
    pub moved_from: Option<RelPath>,
}

/// What the shadow has under a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct After {
    /// The type; for a symbolic link, with its target.
    pub kind: NodeKind,
    /// Permission bits.
    pub mode: u32,
    /// Where the bytes are; `None` for what is not a regular file.
    pub content: Option<Content>,
    /// The node, so that two names of one file can be told from two files.
    pub node: u64,
}

/// Where the bytes of a changed file are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// In this file of the session's `content` folder.
    Shadow(PathBuf),
    /// Still in the host's tree, where it has this name now: the file was moved or its mode changed.
    Host(RelPath),
}

impl Content {
    /// That of a file of the host's by its name in the journal.
    pub(super) fn of_host(path: &RelPath, relocations: &Relocations) -> Self {
        Self::Host(relocations.locate(path).into_owned())
    }
}

/// What is known of each name.
struct Names<'a> {
    shadow: &'a Shadow,
    lower: &'a LowerRoot,
    relocations: &'a Relocations,
    session: &'a SessionDir,
    found: BTreeMap<RelPath, Name>,
}

#[derive(Default)]
struct Name {
    before: Option<Baseline>,
    after: Option<After>,
    moved_from: Option<RelPath>,
}

impl Names<'_> {
    fn gone(&mut self, path: &RelPath, baseline: &Baseline) {
        let name = self.found.entry(path.clone()).or_default();
        name.before.get_or_insert_with(|| baseline.clone());
    }

    fn add_node(&mut self, id: NodeId, node: &Node) -> Result<(), OverlayError> {
        let shown: Vec<RelPath> = node
            .names
            .iter()
            .filter_map(|place| self.shadow.place_path(place))
            .collect();
        let Some(origin) = &node.origin else {
            for path in shown {
                let after = self.after(id, node);
                self.found.entry(path).or_default().after = Some(after);
            }
            return Ok(());
        };
        let home = &origin.lower.path;
        if home.is_root() {
            return Ok(());
        }
        // A further name of the host's that the shadow never named still leads to the node.
        let stayed = shown.contains(home) || (node.names.is_empty() && !node.is_folder());
        if !stayed {
            self.gone(home, &origin.baseline);
        }
        for path in shown {
            let after = self.after(id, node);
            if path == *home {
                if node.content.is_some() || after.mode != origin.baseline.mode {
                    self.gone(&path, &origin.baseline);
                    self.found.entry(path).or_default().after = Some(after);
                }
                continue;
            }
            let name = self.found.entry(path.clone()).or_default();
            name.after = Some(after);
            name.moved_from = Some(home.clone());
            if node.is_folder() {
                self.add_moved(home, &path)?;
            }
        }
        Ok(())
    }

    /// Lists what a landing put on the host when it is there, and gone from the session.
    fn add_landed(&mut self, path: &RelPath, present: &LowerRoot) {
        if self.found.contains_key(path) || !self.shadow.is_gone(path) {
            return;
        }
        let Ok(stat) = present.stat(path) else {
            return;
        };
        if let Ok((_, baseline)) = present.describe(path, &stat) {
            self.gone(path, &baseline);
        }
    }

    /// Lists what a moved directory of the host brings along untouched.
    fn add_moved(&mut self, home: &RelPath, shown: &RelPath) -> Result<(), OverlayError> {
        let mut left = vec![(home.clone(), shown.clone())];
        while let Some((home, shown)) = left.pop() {
            let folder = FolderKey::Lower(home.clone());
            for entry in self.lower.list(&home).unwrap_or_default() {
                if self.shadow.child(&folder, &entry.name).is_some() {
                    continue;
                }
                let (Ok(from), Ok(to)) = (home.join(&entry.name), shown.join(&entry.name)) else {
                    continue;
                };
                let Ok(stat) = self.lower.stat(&from) else {
                    continue;
                };
                // Devices can not be landed, and nobody but root can make them.
                let Ok((_, baseline)) = self.lower.describe(&from, &stat) else {
                    continue;
                };
                if baseline.kind == NodeKind::Directory {
                    left.push((from.clone(), to.clone()));
                }
                let is_file = baseline.kind == NodeKind::File;
                let content = is_file.then(|| Content::of_host(&from, self.relocations));
                let after = After {
                    kind: baseline.kind.clone(),
                    mode: baseline.mode,
                    content,
                    node: stat.ino,
                };
                self.gone(&from, &baseline);
                let name = self.found.entry(to).or_default();
                name.after = Some(after);
                name.moved_from = Some(from);
            }
        }
        Ok(())
    }

    /// Lists the host's further names of a changed file, which nobody has named since: they show
    /// the change as well. Finding them takes a walk, and only where there is such a file.
    fn add_aliases(&mut self) -> Result<(), OverlayError> {
        let shared: HashMap<(u64, u64), NodeId> = self.shadow.changed_aliases().collect();
        if shared.is_empty() {
            return Ok(());
        }
        let labeler = Labeler::embedded(Repository::Present).map_err(|_| Errno::IO)?;
        let mut left = self.shadow.lower_folders();
        left.push(RelPath::root());
        while let Some(home) = left.pop() {
            let folder = FolderKey::Lower(home.clone());
            for entry in self.lower.list(&home).unwrap_or_default() {
                let Ok(path) = home.join(&entry.name) else {
                    continue;
                };
                if self.shadow.child(&folder, &entry.name).is_some() {
                    continue;
                }
                if entry.kind == FileType::Directory {
                    left.push(path);
                } else if shared.keys().any(|(_, ino)| *ino == entry.ino) {
                    self.add_alias(&shared, &labeler, &path);
                }
            }
        }
        Ok(())
    }

    fn add_alias(
        &mut self,
        shared: &HashMap<(u64, u64), NodeId>,
        labeler: &Labeler,
        path: &RelPath,
    ) {
        let Ok(stat) = self.lower.stat(path) else {
            return;
        };
        let Some(id) = shared.get(&(stat.dev, stat.ino)) else {
            return;
        };
        let (Some(shown), Some(node)) = (self.shadow.shown(path), self.shadow.node(*id)) else {
            return;
        };
        if stands_alone(labeler.labels(path)) {
            return;
        }
        if let Some(origin) = &node.origin {
            self.gone(path, &origin.baseline);
        }
        let after = self.after(*id, node);
        self.found.entry(shown).or_default().after = Some(after);
    }

    fn after(&self, id: NodeId, node: &Node) -> After {
        let content = match (&node.kind, &node.origin) {
            (NodeKind::File, origin) => match (node.content, origin) {
                (Some(generation), _) => {
                    let name = file_name(id, generation);
                    Some(Content::Shadow(self.session.content().join(name)))
                }
                (None, Some(origin)) => {
                    Some(Content::of_host(&origin.lower.path, self.relocations))
                }
                (None, None) => None,
            },
            _ => None,
        };
        let mode = node
            .mode
            .or(node.origin.as_ref().map(|origin| origin.baseline.mode));
        After {
            kind: node.kind.clone(),
            mode: mode.unwrap_or(0),
            content,
            node: id.0,
        }
    }

    fn into_changes(self) -> Vec<Change> {
        let named = self
            .found
            .into_iter()
            .filter(|(_, name)| name.before.is_some() || name.after.is_some());
        named
            .map(
                |(
                    path,
                    Name {
                        before,
                        after,
                        moved_from,
                    },
                )| {
                    Change {
                        path,
                        before,
                        after,
                        moved_from,
                    }
                },
            )
            .collect()
    }
}
