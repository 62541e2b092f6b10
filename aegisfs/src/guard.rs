//! Names what is done to the tree, asks the gate, and hands the permit on.

use std::sync::Arc;

use aegis_policies::Gate;

use crate::overlay::Overlay;

/// The face of the overlay, with the gate in front of it.
#[derive(Debug)]
pub struct Guard {
    _overlay: Overlay,
    _gate: Arc<Gate>,
    _agent: Arc<str>,
}

impl Guard {
    /// A guard for `overlay` that acts for the agent called `agent`.
    #[must_use]
    pub fn new(overlay: Overlay, gate: Arc<Gate>, agent: Arc<str>) -> Self {
        Self { _overlay: overlay, _gate: gate, _agent: agent }
    }
}
