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
    /// The first lines of the newest of them, at most ten, escaped.
    pub summaries: Vec<String>,
}

/// The commits that lead from `old` (none for a new branch) to `new`. `stores` are directories of
/// objects; at most 1,000 commits are counted.
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
    let mut walk = repository.revwalk()?;
    walk.set_sorting(Sort::TOPOLOGICAL)?;
    walk.push(new)?;
    for known in old.iter().chain(known) {
        // A tip that these stores do not hold hides nothing.
        walk.hide(*known).ok();
    }
    let commits: Vec<Oid> = walk.take(1_000).collect::<Result<_, _>>()?;
    let summaries = commits
        .iter()
        .take(10)
        .filter_map(|id| summary(&repository, *id))
        .collect();
    Ok(Advance {
        reference: reference.to_owned(),
        commits: commits.len(),
        summaries,
    })
}

fn summary(repository: &Repository, id: Oid) -> Option<String> {
    let commit = repository.find_commit(id).ok()?;
    let line = commit.summary_bytes().unwrap_or_default();
    Some(aegis_policies::path::escape(line))
}
