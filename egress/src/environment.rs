//! The variables that lead the programs of the sandbox to the door.

use crate::upstream::Upstream;

/// The variables for the sandbox, given the ports on which its listeners are: the proxy's, and one
/// for each upstream. An upstream without a key sets none, so that an agent says that it has no key
/// in its own words.
#[must_use]
pub fn environment(proxy: u16, upstreams: &[(&Upstream, u16)]) -> Vec<(String, String)> {
    let url = format!("http://127.0.0.1:{proxy}");
    let mut variables: Vec<(String, String)> = PROXY
        .iter()
        .map(|name| ((*name).to_owned(), url.clone()))
        .collect();
    variables.extend(
        NO_PROXY
            .iter()
            .map(|name| ((*name).to_owned(), LOCAL.to_owned())),
    );
    variables.push(("NODE_USE_ENV_PROXY".to_owned(), "1".to_owned()));
    for (upstream, port) in upstreams {
        let Some(key) = &upstream.key else { continue };
        let endpoint = &upstream.entry.endpoint;
        let base = format!("http://127.0.0.1:{port}{}", endpoint.suffix);
        variables.push((endpoint.variable.clone(), base));
        variables.push((
            key.credential.variable.clone(),
            key.credential.stand_in.clone(),
        ));
    }
    variables
}

/// `ALL_PROXY` is an HTTP proxy, too: some clients fail to start when it is a SOCKS URL.
const PROXY: [&str; 6] = [
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
];
const NO_PROXY: [&str; 2] = ["NO_PROXY", "no_proxy"];
/// Programs of the sandbox reach each other without the proxy; so do the ports of the APIs.
const LOCAL: &str = "localhost,127.0.0.1,::1";

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsString;

    #[test]
    fn only_upstreams_with_a_key_are_named() {
        let table = aegis_policies::tables::upstreams().unwrap();
        let upstreams: Vec<Upstream> = table
            .iter()
            .map(|entry| {
                let key =
                    |name: &str| (name == "OPENAI_API_KEY").then(|| OsString::from("sk-real"));
                Upstream::from_table(entry, key).unwrap()
            })
            .collect();
        let ports: Vec<(&Upstream, u16)> = upstreams.iter().zip(4001..).collect();
        let variables = environment(4000, &ports);
        let value = |name: &str| {
            variables
                .iter()
                .find(|(known, _)| known == name)
                .map(|(_, value)| value.as_str())
        };
        assert_eq!(value("https_proxy"), Some("http://127.0.0.1:4000"));
        assert_eq!(value("NO_PROXY"), Some("localhost,127.0.0.1,::1"));
        assert_eq!(value("OPENAI_BASE_URL"), Some("http://127.0.0.1:4002/v1"));
        assert_eq!(value("OPENAI_API_KEY"), Some("sk-aegis-stand-in"));
        assert_eq!(value("ANTHROPIC_BASE_URL"), None);
        assert_eq!(value("ANTHROPIC_API_KEY"), None);
        assert!(!format!("{variables:?}").contains("sk-real"));
    }
}
