//! Where the project's repository is: in `.git`, or where that leads.
//!
//! Names are locked for what git does with them, so the way that git takes is followed, with its own
//! reading of `.git` files (gitrepository-layout(5)). What lies in the project is not trusted: nothing
//! is opened but beneath its directory, files are read up to a bound, and links are counted.

mod walk;

use std::io;
use std::path::{Path, PathBuf};

use aegis_policies::tables::TableError;
use aegis_policies::{Detour, Labeler, RelPath, Repository};
use rustix::fs::FileType;

use super::project::Project;
use walk::{End, Walk};

/// Where the project's repository is. It is found anew at every start and every landing.
#[derive(Debug)]
pub struct Whereabouts {
    presence: Repository,
    detours: Vec<Detour>,
    outside: Option<PathBuf>,
}

impl Whereabouts {
    /// Finds the repository of `project`.
    ///
    /// # Errors
    /// When that can not be told, such as for a `.git` that may not be looked at.
    pub fn of(project: &Project) -> io::Result<Self> {
        let mut search = Search::new(project)?;
        search.begin()?;
        Ok(search.found)
    }

    /// The labeler for the project.
    ///
    /// # Errors
    /// When the built-in tables are not valid.
    pub fn labeler(&self) -> Result<Labeler, TableError> {
        Ok(Labeler::embedded(self.presence)?.with_detours(&self.detours))
    }

    /// The directory outside the project that holds its repository, or a part of it.
    #[must_use]
    pub fn outside(&self) -> Option<&Path> {
        self.outside.as_deref()
    }
}

struct Search<'a> {
    walk: Walk<'a>,
    dot_git: RelPath,
    found: Whereabouts,
}

impl<'a> Search<'a> {
    fn new(project: &'a Project) -> io::Result<Self> {
        Ok(Self {
            walk: Walk::new(project),
            dot_git: parse(b".git")?,
            found: Whereabouts {
                presence: Repository::Present,
                detours: Vec::new(),
                outside: None,
            },
        })
    }

    fn begin(&mut self) -> io::Result<()> {
        let dot_git = self.dot_git.clone();
        if self.walk.kind(&dot_git)?.is_none() {
            self.found.presence = Repository::Absent;
            return self.project_itself();
        }
        let Some(at) = self.follow(&RelPath::root(), b".git", &dot_git)? else {
            return Ok(());
        };
        let directory = match self.walk.kind(&at)? {
            Some(FileType::Directory) => Some(at),
            Some(FileType::RegularFile) => self.follow_file(&at)?,
            _ => None,
        };
        directory.map_or(Ok(()), |directory| self.look_into(&directory))
    }

    /// Git takes a directory that looks like a repository for one, also without `.git`.
    fn project_itself(&mut self) -> io::Result<()> {
        for name in [b"HEAD".as_slice(), b"objects", b"refs"] {
            if self.walk.kind(&parse(name)?)?.is_none() {
                return Ok(());
            }
        }
        let (root, dot_git) = (RelPath::root(), self.dot_git.clone());
        self.note(&root, &dot_git);
        self.look_into(&root)
    }

    /// The directory that a `.git` file names; relative to the project, wherever the file itself is.
    fn follow_file(&mut self, file: &RelPath) -> io::Result<Option<RelPath>> {
        let text = self.walk.read(file)?;
        let named = text.strip_prefix(b"gitdir: ").map(as_git_reads);
        match named {
            Some(path) if !path.is_empty() => {
                let dot_git = self.dot_git.clone();
                self.follow(&RelPath::root(), path, &dot_git)
            }
            _ => Ok(None),
        }
    }

    /// Finds what in the repository lies elsewhere, and the directory that it shares with others.
    fn look_into(&mut self, directory: &RelPath) -> io::Result<()> {
        self.look_for_links(directory)?;
        let Some(file) = self.walk.file_in(directory, b"commondir")? else {
            return Ok(());
        };
        let text = self.walk.read(&file)?;
        let dot_git = self.dot_git.clone();
        match self.follow(directory, as_git_reads(&text), &dot_git)? {
            Some(shared) => self.look_for_links(&shared),
            None => Ok(()),
        }
    }

    fn look_for_links(&mut self, directory: &RelPath) -> io::Result<()> {
        for part in PARTS {
            let own = join(directory, part)?;
            let stands_for = join(&self.dot_git, part)?;
            let (end, links) = self.walk.go(directory, part)?;
            let places = links.into_iter().chain(match end {
                // Nothing inside can change what lies outside.
                End::Outside(_) => None,
                End::Inside(at) => Some(at),
            });
            for place in places.filter(|place| *place != own) {
                self.note(&place, &stands_for);
            }
        }
        Ok(())
    }

    /// Goes where `text` leads, and notes every name on the way that git takes for `stands_for`.
    fn follow(
        &mut self,
        from: &RelPath,
        text: &[u8],
        stands_for: &RelPath,
    ) -> io::Result<Option<RelPath>> {
        let (end, links) = self.walk.go(from, text)?;
        for link in links {
            self.note(&link, stands_for);
        }
        match end {
            End::Inside(at) => {
                self.note(&at, stands_for);
                Ok(Some(at))
            }
            End::Outside(path) => {
                self.found.outside.get_or_insert(path);
                Ok(None)
            }
        }
    }

    fn note(&mut self, place: &RelPath, stands_for: &RelPath) {
        let detour = Detour {
            place: place.clone(),
            stands_for: stands_for.clone(),
        };
        if place != stands_for && !self.found.detours.contains(&detour) {
            self.found.detours.push(detour);
        }
    }
}

/// The names of a repository that git executes, is configured by, or finds such names in.
const PARTS: [&[u8]; 11] = [
    b"config",
    b"config.worktree",
    b"hooks",
    b"info",
    b"info/attributes",
    b"objects",
    b"objects/info",
    b"objects/info/alternates",
    b"commondir",
    b"modules",
    b"worktrees",
];

/// Git drops the ends of lines at the end, and then takes the text for one that ends with a NUL.
fn as_git_reads(text: &[u8]) -> &[u8] {
    let end = text
        .iter()
        .rposition(|byte| !matches!(byte, b'\n' | b'\r'))
        .map_or(0, |last| last + 1);
    let text = text.get(..end).unwrap_or_default();
    text.split(|byte| *byte == 0).next().unwrap_or_default()
}

fn join(directory: &RelPath, below: &[u8]) -> io::Result<RelPath> {
    let names = below.split(|byte| *byte == b'/');
    names
        .into_iter()
        .try_fold(directory.clone(), |path, name| path.join(name))
        .map_err(io::Error::other)
}

fn parse(name: &[u8]) -> io::Result<RelPath> {
    RelPath::parse(name).map_err(io::Error::other)
}

#[cfg(test)]
mod tests;
