//! Model providers behind the reverse proxy.

use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    pub(super) upstream: Vec<Upstream>,
}

/// One provider.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Upstream {
    /// Its name, as policies and the journal use it.
    pub name: String,
    /// Where it is.
    pub endpoint: Endpoint,
    /// The credentials that it accepts, the first that the launcher was given wins.
    pub credential: Vec<Credential>,
    /// Request headers that are removed, in lower case: whatever the agent puts there is not ours.
    pub strip: Vec<String>,
    /// What may be requested.
    pub route: Vec<Route>,
    /// Why it is configured.
    pub reason: String,
}

/// Where a provider is, outside and inside.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Endpoint {
    /// The base URL without a trailing slash, when the launcher's environment names no other.
    pub base: String,
    /// The variable that names another base URL outside, and that is set inside to the proxy's.
    pub variable: String,
    /// What the variable's value has after the base URL, such as `/v1`.
    #[serde(default)]
    pub suffix: String,
}

/// A key that the launcher is given and the sandbox never sees.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Credential {
    /// The variable of the launcher's environment that holds it.
    pub variable: String,
    /// The request header that carries it, in lower case.
    pub header: String,
    /// What precedes the key in the header, such as `Bearer `.
    #[serde(default)]
    pub prefix: String,
    /// What the variable holds inside, so that the agent starts; it opens nothing.
    pub stand_in: String,
}

/// A kind of request that is forwarded.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Route {
    /// The method.
    pub method: String,
    /// The start of the path, up to a `/` or the end.
    pub path: String,
}

impl Upstream {
    /// Whether a request is one that is forwarded. `path` comes without the query.
    ///
    /// A path with a segment that a server may resolve (`..`, also percent-encoded) is none.
    #[must_use]
    pub fn allows(&self, method: &str, path: &str) -> bool {
        !path.split('/').any(leads_elsewhere)
            && self
                .route
                .iter()
                .any(|route| route.method == method && route.covers(path))
    }
}

impl Route {
    fn covers(&self, path: &str) -> bool {
        path.strip_prefix(self.path.as_str())
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }
}

/// Whether a segment is a dot segment (RFC 3986, 5.2.4) or hides a separator.
fn leads_elsewhere(segment: &str) -> bool {
    let plain = segment.to_ascii_lowercase().replace("%2e", ".");
    plain == "."
        || plain == ".."
        || plain.contains("%2f")
        || plain.contains("%5c")
        || plain.contains('\\')
}
