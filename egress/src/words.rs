//! What the client is told: what happened, why, and what to do next.

use aegis_policies::Refusal;
use aegis_policies::journal::JournalError;
use hyper::StatusCode;

use crate::address::Special;
use crate::allow::Listing;
use crate::dial::DialError;
use crate::http::{Answer, BodyError, HeadError};
use crate::name::Authority;
use crate::upstream::Upstream;

/// A head that can not be read in one way only.
pub(crate) fn unreadable(error: HeadError) -> Answer {
    Answer {
        status: error.status,
        words: format!(
            "aegis-os refused the request: {error}\n\
             The proxy accepts only requests that every server reads in the same way.\n"
        ),
    }
}

/// A request that is for no proxy.
pub(crate) fn not_for_a_proxy() -> Answer {
    Answer {
        status: StatusCode::BAD_REQUEST,
        words: "aegis-os refused the request: this port is a proxy\n\
                It takes CONNECT for https and other protocols, and http:// URLs.\n"
            .to_owned(),
    }
}

/// A request with a full URL, sent to an API's own port.
pub(crate) fn not_for_an_api() -> Answer {
    Answer {
        status: StatusCode::BAD_REQUEST,
        words: "aegis-os refused the request: this port stands for one API\n\
                It takes a path, not a whole URL and not CONNECT.\n"
            .to_owned(),
    }
}

/// A connection that the gate refused.
pub(crate) fn not_allowed(destination: &Authority, listing: Listing, refusal: &Refusal) -> Answer {
    let (why, advice) = match listing {
        Listing::Absent => (
            format!("it is not on the session's list of hosts ({refusal})"),
            format!(
                "To allow it, start the session with `aegis-os run --allow {}`.",
                entry_for(destination)
            ),
        ),
        Listing::Named | Listing::Meant => (
            refusal.to_string(),
            "It is on the list of hosts, and policy has the last word.".into(),
        ),
    };
    Answer {
        status: StatusCode::FORBIDDEN,
        words: format!("aegis-os refused the connection to {destination}; {why}\n{advice}\n"),
    }
}

/// A connection that was allowed and not made.
pub(crate) fn not_connected(destination: &Authority, error: &DialError) -> Answer {
    let (status, advice) = match error {
        DialError::Forbidden { address, class } => (
            StatusCode::FORBIDDEN,
            forbidden_advice(destination, *class, &address.to_string()),
        ),
        DialError::Unresolved(_) | DialError::Unreachable(_) => (
            StatusCode::BAD_GATEWAY,
            "Check the name and the network of this machine.".to_owned(),
        ),
        DialError::Late(_) => (
            StatusCode::GATEWAY_TIMEOUT,
            "Check the network of this machine.".to_owned(),
        ),
    };
    let what = if status == StatusCode::FORBIDDEN {
        "refused"
    } else {
        "could not open"
    };
    Answer {
        status,
        words: format!("aegis-os {what} the connection to {destination}; {error}\n{advice}\n"),
    }
}

fn forbidden_advice(destination: &Authority, class: Special, address: &str) -> String {
    let port = destination.port;
    match class {
        Special::Loopback | Special::Own => format!(
            "A name must not lead to this machine. If its service on port {port} is meant, start \
             the session with `aegis-os run --allow localhost:{port}` and connect to localhost."
        ),
        _ => format!(
            "A name must not lead there. If that address is meant, start the session with \
             `aegis-os run --allow {address}:{port}` and connect to the address."
        ),
    }
}

/// A request that the gate or the upstream's table refused.
pub(crate) fn not_offered(upstream: &Upstream, reason: &str) -> Answer {
    let mut offered: Vec<String> = upstream.entry.route.iter().map(describe).collect();
    offered.dedup();
    Answer {
        status: StatusCode::FORBIDDEN,
        words: format!(
            "aegis-os refused the request to `{}`; {reason}\nThe session's key is used for: {}.\n",
            upstream.name(),
            offered.join(", "),
        ),
    }
}

fn describe(route: &aegis_policies::tables::Route) -> String {
    format!("{} {}", route.method, route.path)
}

/// A path that two routers read in two ways.
pub(crate) fn ambiguous_path() -> Answer {
    Answer {
        status: StatusCode::BAD_REQUEST,
        words: "aegis-os refused the request: its path has dot segments, empty segments or \
                encoded separators\nSend the path in its plain form.\n"
            .to_owned(),
    }
}

/// A request to an API for which the launcher has no key.
pub(crate) fn no_key(upstream: &Upstream) -> Answer {
    let variables: Vec<String> = upstream
        .entry
        .credential
        .iter()
        .map(|one| format!("`{}`", one.variable))
        .collect();
    Answer {
        status: StatusCode::UNAUTHORIZED,
        words: format!(
            "aegis-os has no key for `{}`; keys inside the sandbox are not used\n\
             Set {} where `aegis-os run` is started.\n",
            upstream.name(),
            variables.join(" or "),
        ),
    }
}

/// What can not be put on record does not happen.
pub(crate) fn unrecorded(error: &JournalError) -> Answer {
    Answer {
        status: StatusCode::SERVICE_UNAVAILABLE,
        words: format!(
            "aegis-os could not put the connection on record; {error}\n\
             Nothing leaves without a record. Free space where sessions are kept.\n"
        ),
    }
}

/// A body that is not forwarded.
pub(crate) fn bad_body(error: BodyError) -> Answer {
    Answer {
        status: error.status(),
        words: format!("aegis-os refused the request; {error}\n"),
    }
}

/// An upstream that failed before it answered.
pub(crate) fn upstream_failed(status: StatusCode, destination: &Authority, why: &str) -> Answer {
    Answer {
        status,
        words: format!("aegis-os got no answer from {destination}; {why}\n"),
    }
}

/// The shortest `--allow` entry for a destination.
fn entry_for(destination: &Authority) -> String {
    match destination.port {
        80 | 443 if !destination.host.is_localhost() => destination.host.to_string(),
        _ => destination.to_string(),
    }
}
