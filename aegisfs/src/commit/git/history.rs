//! What the agent's commits are, in words: read from the objects alone, so that nothing in the
//! repository's configuration runs.

use std::path::Path;

use git2::{Odb, Oid, Repository, Sort};

use super::super::error::CommitError;

/// How a branch moves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advance {
    /// The reference below `refs/`, such as `heads/main`.
    pub reference: String,
    /// How many commits it gains.
    pub commits: usize,
    /// How many commits it has now and would not have any more.
    pub dropped: usize,
    /// The first lines of the newest of them, at most ten, escaped.
    pub summaries: Vec<String>,
}

/// The commits that lead from `old` (none for a new branch) to `new`. `stores` are directories of
/// objects.
///
/// # Errors
/// [`CommitError::Git`] when an object is missing.
pub fn advances(
    stores: &[&Path],
    reference: &str,
    old: Option<Oid>,
    new: Oid,
    known: &[Oid],
) -> Result<Advance, CommitError> {
    let store = Odb::new()?;
    for path in stores {
        store.add_disk_alternate(&path.to_string_lossy())?;
    }
    let repository = Repository::from_odb(store)?;
    let hidden: Vec<Oid> = old.iter().chain(known).copied().collect();
    let commits = between(&repository, &hidden, new)?;
    let dropped = old.map_or(Ok(Vec::new()), |old| between(&repository, &[new], old))?;
    let summaries = commits
        .iter()
        .take(10)
        .filter_map(|id| summary(&repository, *id))
        .collect();
    Ok(Advance {
        reference: reference.to_owned(),
        commits: commits.len(),
        dropped: dropped.len(),
        summaries,
    })
}

/// The commits that `tip` has and `hidden` have not, the newest first.
fn between(repository: &Repository, hidden: &[Oid], tip: Oid) -> Result<Vec<Oid>, git2::Error> {
    let mut walk = repository.revwalk()?;
    walk.set_sorting(Sort::TOPOLOGICAL)?;
    walk.push(tip)?;
    for hidden in hidden {
        // A tip that these stores do not hold hides nothing.
        walk.hide(*hidden).ok();
    }
    walk.take(MOST).collect()
}

/// How many commits are counted.
const MOST: usize = 1_000;

fn summary(repository: &Repository, id: Oid) -> Option<String> {
    let commit = repository.find_commit(id).ok()?;
    let line = commit.summary_bytes().unwrap_or_default();
    Some(aegis_policies::path::escape(line))
}
