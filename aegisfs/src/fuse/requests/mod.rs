//! What the kernel's requests are answered with, as plain values: one method per operation, no
//! matter what carries it. Lifetimes, open flags and listings are decided here; a transport only
//! packs what it gets.

mod answers;
mod attributes;
mod files;
mod folders;
mod names;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use aegis_policies::journal::NodeId;
use rustix::io::Errno;

use crate::guard::Guard;
use crate::overlay::{Caller, OverlayError};

pub(super) use answers::{Lookup, Named, Opened, Shown};
pub(super) use attributes::{Fitting, fitting};
pub(super) use names::{Make, Move};

/// The number by which the kernel knows the directory that is mounted (FUSE_ROOT_ID).
const ROOT: u64 = 1;

type Answer<T> = Result<T, Errno>;

/// Who makes a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Asker {
    /// The thread, as the server's process namespace numbers it.
    pub(super) pid: u32,
    /// The user.
    pub(super) uid: u32,
    /// The group.
    pub(super) gid: u32,
}

impl Asker {
    /// Whether a change by this one takes set-id bits away: where the kernel does not say, root alone
    /// is sure to have `CAP_FSETID`.
    pub(super) const fn caller(self, kills: bool) -> Caller {
        if kills {
            Caller::Ordinary { group: self.gid }
        } else {
            Caller::Trusted
        }
    }
}

/// Answers for one mount.
#[derive(Clone, Debug)]
pub(super) struct Requests {
    guard: Arc<Guard>,
    root: NodeId,
}

impl Requests {
    /// Answers from what `guard` lets through.
    pub(super) fn new(guard: Arc<Guard>) -> Self {
        let root = guard.overlay().root();
        Self { guard, root }
    }

    /// Whether nodes can have access control lists, so that the kernel has to ask for them.
    pub(super) fn has_acl(&self) -> bool {
        self.guard.overlay().has_acl()
    }

    /// Does the work of a request.
    fn answer<T>(&self, work: impl FnOnce(&Guard) -> Result<T, OverlayError>) -> Answer<T> {
        guarded(|| work(&self.guard))
    }

    /// The node that the kernel means.
    const fn node(&self, number: u64) -> NodeId {
        if number == ROOT {
            self.root
        } else {
            NodeId(number)
        }
    }
}

/// A fault of ours is an error of one request and nothing more: a server that died of it would hang
/// the agent for ever.
fn guarded<T>(work: impl FnOnce() -> Result<T, OverlayError>) -> Answer<T> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) => Err(error.errno()),
        Err(_) => Err(Errno::IO),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_is_an_error_of_that_request_alone() {
        let fault: Answer<()> = guarded(|| panic!("a fault of ours"));
        assert_eq!(fault, Err(Errno::IO));
        assert!(guarded(|| Ok(())).is_ok());
    }
}
