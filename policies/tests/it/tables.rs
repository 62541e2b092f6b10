//! The data tables: well formed, each line with its reason, and true to their purpose.

use std::collections::HashSet;
use std::ffi::OsStr;

use aegis_policies::tables::{self, MaskKind};

fn distinct<'a>(names: impl IntoIterator<Item = &'a str>) {
    let mut seen = HashSet::new();
    for name in names {
        assert!(
            !name.is_empty() && seen.insert(name),
            "`{name}` is there twice"
        );
    }
}

#[test]
fn toolchains_show_nothing_that_holds_credentials() {
    let toolchains = tables::toolchains().unwrap();
    distinct(toolchains.iter().map(|toolchain| toolchain.name.as_str()));
    distinct(
        toolchains
            .iter()
            .flat_map(|toolchain| &toolchain.directories)
            .map(String::as_str),
    );
    for toolchain in &toolchains {
        assert!(!toolchain.reason.is_empty() && !toolchain.directories.is_empty());
        for path in toolchain.directories.iter().chain(&toolchain.search) {
            assert!(path.starts_with("~/") || path.starts_with('/'), "{path}");
            assert!(!path.ends_with('/') && !path.contains("/../"), "{path}");
        }
        for whole in [
            "~",
            "~/.cargo",
            "~/.config",
            "~/.local",
            "~/.local/share",
            "~/.m2",
            "~/.claude",
            "~/go",
        ] {
            assert!(
                !toolchain.directories.iter().any(|path| path == whole),
                "{whole}"
            );
        }
        for path in &toolchain.search {
            let covered = toolchain
                .directories
                .iter()
                .any(|directory| path.starts_with(directory));
            assert!(covered, "{path} is on PATH and not shown");
        }
    }
}

#[test]
fn masks_are_absolute_and_patterns_only_at_the_end() {
    let masks = tables::masks().unwrap();
    distinct(masks.iter().map(|mask| mask.path.as_str()));
    for mask in &masks {
        let (directory, _) = mask.split();
        assert!(
            mask.path.starts_with('/') && !mask.path.ends_with('/'),
            "{}",
            mask.path
        );
        assert!(
            !directory.contains('*') && !mask.reason.is_empty(),
            "{}",
            mask.path
        );
    }
    for path in [
        "/home",
        "/root",
        "/run",
        "/var",
        "/tmp",
        "/mnt",
        "/media",
        "/etc/ssl/private",
    ] {
        let mask = masks.iter().find(|mask| mask.path == path).unwrap();
        assert_eq!(mask.kind, MaskKind::Directory, "{path}");
    }
}

#[test]
fn roots_show_the_system_and_no_data() {
    let roots = tables::roots().unwrap();
    distinct(roots.iter().map(|root| root.path.as_str()));
    for root in &roots {
        assert!(
            root.path.len() > 1 && root.path.starts_with('/') && !root.path.ends_with('/'),
            "{}",
            root.path
        );
        assert!(!root.reason.is_empty(), "{}", root.path);
    }
    for masked in tables::masks().unwrap() {
        let is_shown = roots.iter().any(|root| root.path == masked.path);
        assert!(!is_shown, "{} is shown and masked", masked.path);
    }
}

#[test]
fn a_pattern_covers_what_it_says() {
    let masks = tables::masks().unwrap();
    let keys = masks
        .iter()
        .find(|mask| mask.path == "/etc/ssh/ssh_host_*_key")
        .unwrap();
    assert!(keys.is_pattern());
    assert_eq!(keys.split(), ("/etc/ssh", "ssh_host_*_key"));
    assert!(keys.covers(b"ssh_host_ed25519_key") && keys.covers(b"ssh_host_\xff_key"));
    assert!(!keys.covers(b"ssh_host_ed25519_key.pub") && !keys.covers(b"ssh_config"));
    let home = masks.iter().find(|mask| mask.path == "/home").unwrap();
    assert_eq!(home.split(), ("/", "home"));
    assert!(!home.is_pattern() && home.covers(b"home") && !home.covers(b"homes"));
}

#[test]
fn no_credential_and_no_way_to_load_code_passes_in_the_environment() {
    let environment = tables::environment().unwrap();
    distinct(
        environment
            .variable
            .iter()
            .map(|variable| variable.name.as_str()),
    );
    for name in [
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_AUTH_TOKEN",
        "OPENAI_API_KEY",
        "AWS_SECRET_ACCESS_KEY",
        "GITHUB_TOKEN",
        "NPM_TOKEN",
        "SSH_AUTH_SOCK",
        "GPG_AGENT_INFO",
        "DBUS_SESSION_BUS_ADDRESS",
        "XDG_RUNTIME_DIR",
        "DISPLAY",
        "WAYLAND_DISPLAY",
        "DOCKER_HOST",
        "KUBECONFIG",
        "LD_PRELOAD",
        "LD_LIBRARY_PATH",
        "BASH_ENV",
        "ENV",
        "PROMPT_COMMAND",
        "NODE_OPTIONS",
        "PYTHONSTARTUP",
        "PYTHONPATH",
        "PERL5LIB",
        "RUBYOPT",
        "JAVA_TOOL_OPTIONS",
        "GIT_CONFIG_COUNT",
        "GIT_DIR",
        "GIT_SSH_COMMAND",
        "GIT_ASKPASS",
        "HTTPS_PROXY",
        "http_proxy",
        "PATH",
        "HOME",
        "TMPDIR",
        "CLAUDE_CONFIG_DIR",
        "CODEX_HOME",
        "CLAUDE_CODE_OAUTH_TOKEN",
        "CARGO_REGISTRY_TOKEN",
        "LC",
    ] {
        assert!(!environment.passes(OsStr::new(name)), "{name}");
    }
    for name in [
        "TERM",
        "LANG",
        "LC_ALL",
        "USER",
        "TZ",
        "CLAUDE_CODE_MAX_OUTPUT_TOKENS",
    ] {
        assert!(environment.passes(OsStr::new(name)), "{name}");
    }
}

#[test]
fn the_filter_names_each_call_once_and_no_dangerous_family() {
    let seccomp = tables::seccomp().unwrap();
    distinct(seccomp.syscall.iter().map(|rule| rule.name.as_str()));
    distinct(seccomp.flag.iter().map(|rule| rule.name.as_str()));
    let families: Vec<_> = seccomp.family.iter().map(|family| family.value).collect();
    assert_eq!(families, [1, 2, 10, 16]);
    let requests: Vec<_> = seccomp.ioctl.iter().map(|rule| rule.request).collect();
    assert!(requests.contains(&0x5412) && requests.contains(&0x541c));
    // Refusing these wholesale hangs event loops.
    for name in ["connect", "sendto", "socketpair", "bind", "clone", "futex"] {
        assert!(
            !seccomp.syscall.iter().any(|rule| rule.name == name),
            "{name}"
        );
    }
    let namespaces = seccomp
        .flag
        .iter()
        .find(|rule| rule.name == "clone")
        .unwrap();
    assert_eq!(
        namespaces.any_of & 0xff,
        0,
        "the low byte of clone's flags is a signal"
    );
    assert_ne!(namespaces.any_of & 0x1000_0000, 0, "CLONE_NEWUSER");
}

#[test]
fn upstreams_forward_only_their_routes() {
    let upstreams = tables::upstreams().unwrap();
    distinct(upstreams.iter().map(|upstream| upstream.name.as_str()));
    let anthropic = upstreams
        .iter()
        .find(|upstream| upstream.name == "anthropic")
        .unwrap();
    for path in ["/v1/messages", "/v1/messages/count_tokens"] {
        assert!(anthropic.allows("POST", path), "{path}");
    }
    for (method, path) in [
        ("GET", "/v1/messages"),
        ("POST", "/v1/messagesx"),
        ("POST", "/v1/files"),
        ("POST", "/"),
        ("POST", "/v1/messages/../files"),
        ("POST", "/v1/messages/%2E%2e/files"),
        ("POST", "/v1/messages/%2f..%2ffiles"),
        ("POST", "/v1/messages\\..\\files"),
        ("post", "/v1/messages"),
        ("HEAD", "/v1/messages"),
    ] {
        assert!(!anthropic.allows(method, path), "{method} {path}");
    }
    for upstream in &upstreams {
        assert!(
            upstream.endpoint.base.starts_with("https://")
                && !upstream.endpoint.base.ends_with('/')
        );
        for credential in &upstream.credential {
            assert!(
                upstream.strip.contains(&credential.header),
                "{}",
                credential.header
            );
        }
    }
}
