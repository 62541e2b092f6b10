//! `aegis-os audit --verify`: whether the record is whole.

use std::process::ExitCode;

use aegis_policies::path::hex;
use aegisfs::overlay::checkpoint::{self, Dismissed, Verified};
use serde_json::json;

use super::super::{Outcome, talk};
use crate::error::CommandError;
use crate::session::home::shown;
use crate::session::serve::ServeError;
use crate::session::{Session, positions};

/// Reads the journal from its first entry, rebuilds the tree from it, and compares the checkpoints
/// with it. A checkpoint that differs makes the command fail; damage of the journal is its error.
///
/// # Errors
/// When the journal is damaged, or does not lead to a tree.
pub(super) fn run(session: &Session, json: bool) -> Outcome {
    let relocations = positions::relocations(session)?;
    let verified = checkpoint::verify(session.dir(), &relocations).map_err(ServeError::from)?;
    print(&verified, json)?;
    for Dismissed { file, reason } in &verified.dismissed {
        talk::say(&format!("aegis-os: checkpoint `{}`: {reason}", shown(file)));
    }
    Ok(if verified.dismissed.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn print(verified: &Verified, json: bool) -> Result<(), CommandError> {
    let Verified {
        entries,
        checkpoints,
        dismissed,
        ..
    } = verified;
    let chain = hex(&verified.chain);
    if json {
        let object = json!({
            "entries": entries,
            "chain": chain,
            "checkpoints": checkpoints,
            "dismissed": dismissed.iter().map(|it| shown(&it.file)).collect::<Vec<_>>(),
        });
        return talk::print(&format!("{object}\n"));
    }
    talk::print(&format!(
        "entries      {entries}\nchain        {chain}\ncheckpoints  {checkpoints} of {} match\n",
        checkpoints + dismissed.len()
    ))
}
