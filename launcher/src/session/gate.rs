//! The gate of a session.

use std::sync::Arc;

use aegis_policies::gate::GateError;
use aegis_policies::journal::Journal;
use aegis_policies::{Gate, Policy};

use super::repository::Whereabouts;

/// What the person's own policies are called in what is said of them.
const OWN: &str = "policy.cedar";

/// Opens the gate that judges by the built-in policies and by `own`, those of the person, which can
/// only forbid more, and that writes to `journal`.
///
/// # Errors
/// When the policies can not be used, or names of `repository` not be labelled.
pub(crate) fn open(
    own: Option<&str>,
    repository: &Whereabouts,
    journal: Arc<Journal>,
) -> Result<Arc<Gate>, GateError> {
    let policy = own.map_or_else(Policy::builtin, |own| Policy::with_user(OWN, own))?;
    Ok(Arc::new(Gate::open(policy, repository.labeler()?, journal)))
}
