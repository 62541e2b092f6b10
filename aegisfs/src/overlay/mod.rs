//! The lazy copy-on-write tree.

pub mod changes;
mod error;

use std::os::fd::OwnedFd;
use std::sync::Arc;

use aegis_policies::Gate;

pub use error::OverlayError;

use crate::layout::SessionDir;

/// The project as one session sees it: the host's tree with what the session changed over it.
#[derive(Debug)]
pub struct Overlay {}

impl Overlay {
    /// Opens the tree of a session over the project at `project`, replaying its journal.
    ///
    /// # Errors
    /// [`OverlayError`] when the session's folders or its journal can not be read, or when the
    /// session lies inside the project.
    pub fn open(
        _project: OwnedFd,
        _session: &SessionDir,
        _gate: Arc<Gate>,
    ) -> Result<Self, OverlayError> {
        Err(OverlayError::Stale)
    }
}
