//! What this machine offers to sessions, found out by trying.

mod probe;
mod report;

pub use probe::{child, private_mount};
pub use report::{as_json, as_text};

use aegisfs::fuse::Features;

use crate::session::Enforcement;

/// One thing that was tried.
#[derive(Clone, Debug)]
pub struct Finding {
    /// What was tried, in a word or two.
    pub name: &'static str,
    /// Whether sessions can do without it.
    pub need: Need,
    /// What was found, or what is wrong.
    pub result: Result<String, Problem>,
}

/// Whether sessions can do without something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// No session runs without it.
    Required,
    /// Another finding can take its place, or a session is weaker without it.
    Useful,
    /// Nothing is missing without it; it can be had.
    Optional,
}

/// Something that is not as it should be.
#[derive(Clone, Debug)]
pub struct Problem {
    /// What happened and why.
    pub why: String,
    /// What to do about it.
    pub next: String,
}

/// Everything that was tried.
#[derive(Clone, Debug)]
pub struct Examination {
    /// One by one, in the order in which a session needs them.
    pub findings: Vec<Finding>,
    /// What a session was like that was really run; why there was none otherwise.
    pub session: Result<Trial, Problem>,
}

/// A session that was really run.
#[derive(Clone, Debug)]
pub struct Trial {
    /// What the kernel enforced.
    pub enforced: Enforcement,
    /// How its tree was served.
    pub features: Option<Features>,
}

impl Examination {
    /// Whether sessions can run here.
    #[must_use]
    pub const fn is_fit(&self) -> bool {
        self.session.is_ok()
    }
}

/// Tries everything.
#[must_use]
pub fn examine() -> Examination {
    let findings = vec![
        probe::namespaces(),
        probe::device(),
        probe::private_mount(),
        probe::helper(),
        probe::bubblewrap(),
        probe::sessions(),
        probe::open_files(),
        probe::options::watches(),
        probe::options::rings(),
        probe::options::audience(),
    ];
    Examination {
        findings,
        session: probe::session(),
    }
}
