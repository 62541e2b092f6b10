//! Files of a session of which a part is lost.

use aegis_policies::RelPath;
use aegisfs::commit::Site;
use aegisfs::overlay::changes::{Change, Content};

use super::{Project, Session};
use crate::error::CommandError;

/// Those of the `changes` of which a part was never copied from the host and can not be any more.
///
/// # Errors
/// When the project can not be read.
pub fn torn(session: &Session, changes: &[Change]) -> Result<Vec<RelPath>, CommandError> {
    let project = Project::of(session)?;
    let site = Site::new(session.dir(), project.directory());
    let is_torn = |change: &&Change| {
        let after = change.after.as_ref();
        let content = after.and_then(|after| after.content.as_ref());
        content.is_some_and(|content| {
            matches!(content, Content::Shadow(_))
                && site.agent_file(content).is_ok_and(|file| file.is_torn())
        })
    };
    let torn = changes.iter().filter(is_torn);
    Ok(torn.map(|change| change.path.clone()).collect())
}
