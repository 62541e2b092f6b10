//! Tests of `upstream`.

use super::*;

fn entry(name: &str) -> tables::Upstream {
    tables::upstreams()
        .unwrap()
        .into_iter()
        .find(|entry| entry.name == name)
        .unwrap()
}

fn upstream(name: &str, variables: &[(&str, &str)]) -> Result<Upstream, EgressError> {
    Upstream::from_table(&entry(name), |wanted| {
        let found = variables.iter().find(|(name, _)| *name == wanted);
        found.map(|(_, value)| OsString::from(value))
    })
}

fn outside(upstream: &Upstream, path: &'static str) -> String {
    upstream
        .base
        .path(&PathAndQuery::from_static(path))
        .unwrap()
        .to_string()
}

#[test]
fn the_table_alone_gives_no_key() {
    let anthropic = upstream("anthropic", &[]).unwrap();
    assert!(!anthropic.has_key());
    assert!(anthropic.base.secure);
    assert_eq!(
        anthropic.base.authority.to_string(),
        "api.anthropic.com:443"
    );
    assert_eq!(anthropic.base.listing(), Listing::Named);
}

#[test]
fn the_first_credential_that_is_set_wins() {
    let token = ("ANTHROPIC_AUTH_TOKEN", "token-token");
    let both = upstream("anthropic", &[token, ("ANTHROPIC_API_KEY", "key-key-key")]).unwrap();
    assert_eq!(both.key.unwrap().header, "x-api-key");
    let one = upstream("anthropic", &[token, ("ANTHROPIC_API_KEY", "")]).unwrap();
    assert_eq!(one.key.unwrap().header, "authorization");
}

#[test]
fn a_chosen_base_keeps_or_loses_the_suffix() {
    let at = |url| upstream("openai", &[("OPENAI_BASE_URL", url)]).unwrap();
    assert_eq!(
        outside(&at("http://127.0.0.1:9/v1"), "/v1/responses?a"),
        "/v1/responses?a"
    );
    assert_eq!(
        outside(&at("https://gw.test/openai/"), "/v1/responses"),
        "/openai/responses"
    );
    assert_eq!(
        outside(&at("https://gw.test/x/v1/"), "/v1/models"),
        "/x/v1/models"
    );
    assert_eq!(
        outside(&upstream("openai", &[]).unwrap(), "/v1/models"),
        "/v1/models"
    );
    assert_eq!(at("http://localhost:9/v1").base.listing(), Listing::Meant);
    assert_eq!(at("https://gw.test/").base.listing(), Listing::Named);
}

#[test]
fn bases_that_would_leak_the_key_are_errors() {
    for url in [
        "http://gw.test/v1",
        "ftp://gw.test",
        "gw.test",
        "https://",
        "https://u:p@gw.test/",
        "https://gw.test/a/../b",
        "https://gw.test/?x",
        "https://0x7f.1/",
        "http://10.0.0.1/",
    ] {
        let error = upstream("openai", &[("OPENAI_BASE_URL", url)]).unwrap_err();
        assert!(matches!(&error, EgressError::BaseUrl { .. }), "{url}");
        assert!(!error.to_string().contains("u:p"), "{error}");
    }
}

#[test]
fn a_key_that_breaks_a_header_is_an_error_that_does_not_show_it() {
    let error = upstream("openai", &[("OPENAI_API_KEY", "sk-1\r\nx: y")]).unwrap_err();
    assert!(matches!(error, EgressError::Key { .. }));
    assert!(!error.to_string().contains("sk-1"));
}

#[test]
fn debug_output_hides_the_key() {
    let upstream = upstream("openai", &[("OPENAI_API_KEY", "sk-hidden-1")]).unwrap();
    assert!(!format!("{upstream:?}").contains("hidden"));
}

#[test]
fn only_plain_paths_are_judged() {
    for path in ["/", "/v1/messages", "/v1/messages/", "/v1/files/a.b-c_d~e"] {
        assert!(is_plain(path), "{path}");
    }
    for path in [
        "",
        "v1",
        "//v1",
        "/v1/../x",
        "/v1/..",
        "/./v1",
        "/v1/%2e%2e/x",
        "/v1%2Fx",
        "/v1/%252e",
        "/a\\b",
        "/v1/messages%00",
        "/v1/messages;x",
        "/a//b",
        "/%5C",
    ] {
        assert!(!is_plain(path), "{path}");
    }
}
