//! What an administrator can allow that makes sessions faster, or lets others look into a view.

use std::fs;

use crate::doctor::{Finding, Need, Problem};

/// A tree watches a part of these; with more, even very large projects are watched wholly.
const ENOUGH_WATCHES: u64 = 262_144;

/// How many directories of the host can be watched, so that its changes are announced and what is not
/// announced need not be asked for.
pub(in crate::doctor) fn watches() -> Finding {
    let path = "/proc/sys/fs/inotify/max_user_watches";
    let limit = fs::read_to_string(path).ok();
    let limit: Option<u64> = limit.and_then(|limit| limit.trim().parse().ok());
    let result = match limit {
        Some(limit) if limit >= ENOUGH_WATCHES => Ok(format!("{limit} for each user")),
        Some(limit) => Err(problem(format!("{limit} for each user"))),
        None => Err(problem("the kernel has none (inotify)".to_owned())),
    };
    Finding {
        name: "watches",
        need: Need::Optional,
        result,
    }
}

fn problem(why: String) -> Problem {
    Problem {
        why: format!(
            "{why}; what lies in further directories of a project is asked for again and again"
        ),
        next: format!(
            "`sudo sysctl fs.inotify.max_user_watches={ENOUGH_WATCHES}`, and the same line in \
             /etc/sysctl.d/ for the next start"
        ),
    }
}

/// Whether the kernel serves FUSE over rings (Linux 6.14), which `aegis-os mount -o io_uring` asks for.
pub(in crate::doctor) fn rings() -> Finding {
    let switch = fs::read_to_string("/sys/module/fuse/parameters/enable_uring");
    let result = match switch.as_deref().map(str::trim) {
        Ok("Y" | "1") => Ok("for `aegis-os mount -o io_uring`".to_owned()),
        Ok(_) => Err(Problem {
            why: "the kernel has it and may not use it".to_owned(),
            next:
                "`echo Y | sudo tee /sys/module/fuse/parameters/enable_uring`, and `options fuse \
                   enable_uring=1` in /etc/modprobe.d/ (or `fuse.enable_uring=1` for a kernel that \
                   has FUSE built in); then `aegis-os mount -o io_uring`"
                    .to_owned(),
        }),
        Err(_) => Err(Problem {
            why: "the kernel does not offer it".to_owned(),
            next: "nothing; it comes with Linux 6.14".to_owned(),
        }),
    };
    Finding {
        name: "io_uring",
        need: Need::Optional,
        result,
    }
}

/// Whether a user may open a view to others.
pub(in crate::doctor) fn audience() -> Finding {
    let consent = fs::read_to_string("/etc/fuse.conf").unwrap_or_default();
    let result = if consent
        .lines()
        .any(|line| line.trim() == "user_allow_other")
    {
        Ok("users may open a view to others".to_owned())
    } else {
        Err(Problem {
            why: "only root can open a view to other users".to_owned(),
            next: "`echo user_allow_other | sudo tee -a /etc/fuse.conf`, for `aegis-os mount -o \
                   allow_other`"
                .to_owned(),
        })
    };
    Finding {
        name: "allow_other",
        need: Need::Optional,
        result,
    }
}
