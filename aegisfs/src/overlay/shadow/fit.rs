//! Checking that an operation fits: everything that can fail, before the record is written and the
//! change is made.

use aegis_policies::RelPath;
use aegis_policies::journal::{Displaced, FirstTouch, Generation, NodeId, ShadowOp};

use super::{Child, Place, Shadow};

/// Why an operation does not follow from the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Misfit(pub(crate) &'static str);

/// An operation that fits the state it was prepared on.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(super) operation: ShadowOp,
    /// Where [`ShadowOp::path`] is; `None` for the root.
    pub(super) place: Option<Place>,
    /// Where the old name of a rename or a link is.
    pub(super) from: Option<Place>,
}

impl Prepared {
    /// The operation, for the record.
    pub(crate) const fn operation(&self) -> &ShadowOp {
        &self.operation
    }
}

impl Shadow {
    /// Checks that an operation fits.
    ///
    /// # Errors
    /// [`Misfit`] says what does not.
    pub(crate) fn prepare(&self, operation: ShadowOp) -> Result<Prepared, Misfit> {
        let place = self.fit_place(operation.path())?;
        let from = match &operation {
            ShadowOp::Rename { from, .. } | ShadowOp::Link { from, .. } => self.fit_place(from)?,
            _ => None,
        };
        if from.is_some() && from == place {
            return Err(Misfit("the two names are one"));
        }
        self.fit(&operation, place.as_ref(), from.as_ref())?;
        Ok(Prepared {
            operation,
            place,
            from,
        })
    }

    fn fit_place(&self, path: &RelPath) -> Result<Option<Place>, Misfit> {
        if path.is_root() {
            return Ok(None);
        }
        self.place(path)
            .map(Some)
            .ok_or(Misfit("the directory is not there"))
    }

    fn fit(
        &self,
        operation: &ShadowOp,
        place: Option<&Place>,
        from: Option<&Place>,
    ) -> Result<(), Misfit> {
        match operation {
            ShadowOp::CopyUp {
                node,
                lower,
                baseline,
                ..
            } => {
                let touch = self
                    .node(*node)
                    .is_none()
                    .then(|| (lower.clone(), baseline.clone()));
                self.fit_node(*node, &touch)?;
                self.fit_touch(place, &touch)
            }
            ShadowOp::Create { node, .. } => {
                if self.node(*node).is_some() {
                    return Err(Misfit("the new node exists"));
                }
                self.fit_free(place)
            }
            ShadowOp::Link {
                node, first_touch, ..
            } => {
                self.fit_node(*node, first_touch)?;
                self.fit_touch(from, first_touch)?;
                self.fit_free(place)
            }
            ShadowOp::Remove {
                node, first_touch, ..
            } => {
                self.fit_node(*node, first_touch)?;
                self.fit_name(place, *node, first_touch)
            }
            ShadowOp::Rename {
                node,
                first_touch,
                displaced,
                exchange,
                ..
            } => {
                self.fit_node(*node, first_touch)?;
                self.fit_name(from, *node, first_touch)?;
                self.fit_displaced(place, displaced.as_ref(), *exchange)
            }
            ShadowOp::SetAttr {
                node, first_touch, ..
            }
            | ShadowOp::SetXattr {
                node, first_touch, ..
            } => {
                self.fit_node(*node, first_touch)?;
                self.fit_touch(place, first_touch)
            }
            ShadowOp::Fork {
                node, generation, ..
            } => {
                self.fit_node(*node, &None)?;
                self.fit_fork(*node, *generation)
            }
            ShadowOp::Name { node, .. } => {
                if self.node(*node).is_some_and(|node| !node.is_orphan()) {
                    return Err(Misfit("the file has a name"));
                }
                self.fit_free(place)
            }
            _ => Err(Misfit("the operation is not known")),
        }
    }

    fn fit_node(&self, id: NodeId, first_touch: &FirstTouch) -> Result<(), Misfit> {
        match (self.node(id), first_touch) {
            (Some(node), Some(_)) if !node.is_orphan() => Err(Misfit("a second first touch")),
            (None, None) => Err(Misfit("the node is not known")),
            (Some(node), None) if node.is_orphan() => Err(Misfit("the node has no name")),
            _ => Ok(()),
        }
    }

    /// What is touched first comes from the host's name that is touched, which nothing covers.
    fn fit_touch(&self, place: Option<&Place>, first_touch: &FirstTouch) -> Result<(), Misfit> {
        let Some((lower, _)) = first_touch else {
            return Ok(());
        };
        let untouched = match place {
            None => lower.path.is_root(),
            Some(place) => {
                self.child(&place.folder, &place.name).is_none()
                    && place.lower().as_ref() == Some(&lower.path)
            }
        };
        if untouched {
            Ok(())
        } else {
            Err(Misfit("the first touch is of another name"))
        }
    }

    /// The name must lead to the node: because the shadow says so, or because it is a name of the
    /// host's that the shadow has not touched.
    fn fit_name(
        &self,
        place: Option<&Place>,
        id: NodeId,
        first_touch: &FirstTouch,
    ) -> Result<(), Misfit> {
        self.fit_touch(place, first_touch)?;
        let place = place.ok_or(Misfit("the root has no name"))?;
        match self.child(&place.folder, &place.name) {
            Some(Child::Node(found)) if found == id && first_touch.is_none() => Ok(()),
            None if first_touch.is_some() => Ok(()),
            None if place.lower().is_some() && self.has_more_names(id) => Ok(()),
            _ => Err(Misfit("the name leads elsewhere")),
        }
    }

    /// Whether the host has names of the node that the shadow does not mention.
    fn has_more_names(&self, id: NodeId) -> bool {
        let origin = self.node(id).and_then(|node| node.origin.as_ref());
        origin.is_some_and(|origin| origin.lower.links > 1)
    }

    fn fit_free(&self, place: Option<&Place>) -> Result<(), Misfit> {
        let place = place.ok_or(Misfit("the root has no name"))?;
        match self.child(&place.folder, &place.name) {
            Some(Child::Node(_)) => Err(Misfit("the name is taken")),
            _ => Ok(()),
        }
    }

    fn fit_fork(&self, id: NodeId, generation: Generation) -> Result<(), Misfit> {
        if generation != self.generation() {
            return Err(Misfit("the generation is another"));
        }
        match self.node(id).and_then(|node| node.content) {
            Some(content) if content < generation => Ok(()),
            _ => Err(Misfit("there is nothing to fork")),
        }
    }

    fn fit_displaced(
        &self,
        place: Option<&Place>,
        displaced: Option<&Displaced>,
        exchange: bool,
    ) -> Result<(), Misfit> {
        match displaced {
            Some(displaced) => {
                self.fit_node(displaced.node, &displaced.first_touch)?;
                self.fit_name(place, displaced.node, &displaced.first_touch)
            }
            None if exchange => Err(Misfit("an exchange needs two names")),
            None => self.fit_free(place),
        }
    }
}
