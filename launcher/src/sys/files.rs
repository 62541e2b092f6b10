//! How many files this process may have open, and how many the command was meant to.

use std::sync::OnceLock;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// More than a session opens; the hard limit may be a thousand times that.
const ENOUGH: u64 = 1 << 20;

/// The limit that this process was started with; a limit belongs to the process, and so does this.
static GIVEN: OnceLock<Rlimit> = OnceLock::new();

/// Raises the soft limit as far as it goes: every file that a process inside opens is one of ours.
/// Where that is refused the old limit stays, and opening files ends sooner.
pub(crate) fn raise() {
    let given = given();
    // `None` is "no limit".
    let most = Some(given.maximum.map_or(ENOUGH, |maximum| maximum.min(ENOUGH)));
    if given.current.is_some() && given.current < most {
        let raised = Rlimit {
            current: most,
            maximum: given.maximum,
        };
        let _stays = setrlimit(Resource::Nofile, raised);
    }
}

/// The limit that this process was started with: programs that use select(2) rely on a low one.
pub(crate) fn given() -> Rlimit {
    *GIVEN.get_or_init(|| getrlimit(Resource::Nofile))
}
