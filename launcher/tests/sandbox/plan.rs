//! Plans as text: what is shown, hidden and set for some hosts.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use aegis_launcher::sandbox::facts::{Found, Person, Place, Shown};
use aegis_launcher::sandbox::home::Identity;
use aegis_launcher::sandbox::mount::Kind;
use aegis_launcher::sandbox::program::{Hop, Program};
use aegis_launcher::sandbox::{HostFacts, Plan, Request, SandboxError};

fn request(project: &str) -> Request {
    Request {
        session: "20260101-120000-abcd".to_owned(),
        project: project.into(),
        directory: project.into(),
        command: vec!["agent".into(), "--flag".into()],
        hidden: vec!["/home/ada/.aegis".into()],
        environment: vec![("HTTPS_PROXY".into(), "http://127.0.0.1:17801".into())],
        doors: vec![17801],
        ..Request::default()
    }
}

fn facts() -> HostFacts {
    let link = |at: &str, target: &str| Hop {
        at: at.into(),
        target: target.into(),
    };
    HostFacts {
        user: Person {
            uid: 1000,
            name: "ada".into(),
            home: "/home/ada".into(),
            real_home: "/home/ada".into(),
        },
        environment: vec![
            pair("PATH", "/usr/bin"),
            pair("TERM", "xterm"),
            pair("SHELL", "/home/ada/bin/fish"),
            pair("GITHUB_TOKEN", "secret"),
        ],
        roots: ["/etc", "/nix/store", "/opt", "/sys", "/usr"]
            .map(|path| Place {
                path: path.into(),
                kind: Kind::Directory,
            })
            .to_vec(),
        links: vec![
            link("/bin", "usr/bin"),
            link("/data", "/export/data"),
            link("/lib", "/also"),
            link("/also", "usr/lib"),
            link("/loop", "loop"),
            link("/proc2", "proc"),
            link("/up", "usr/../export"),
        ],
        memory: 8 << 30,
        masks: [
            ("/home", Kind::Directory),
            ("/run", Kind::Directory),
            ("/tmp", Kind::Directory),
            ("/var", Kind::Directory),
            ("/var/lib/secret", Kind::File),
            ("/etc/shadow", Kind::File),
            ("/etc/ssl/private", Kind::Directory),
        ]
        .map(|(path, kind)| Place {
            path: path.into(),
            kind,
        })
        .to_vec(),
        search: vec![
            shown("/home/ada/.cargo/bin"),
            shown("/home/ada/private/bin"),
            shown("/usr/bin"),
            shown("/bin"),
        ],
        toolchains: vec![Found {
            directories: vec![shown("/home/ada/.cargo/bin"), shown("/home/ada/.rustup")],
            search: vec!["/home/ada/.cargo/bin".into()],
            environment: vec![pair("RUSTUP_HOME", "/home/ada/.rustup")],
        }],
        programs: vec![program("/usr/bin/agent")],
        identity: Identity {
            name: Some("Ada \"A\" L".to_owned()),
            ..Identity::default()
        },
        ..HostFacts::default()
    }
}

fn pair(name: &str, value: &str) -> (OsString, OsString) {
    (name.into(), value.into())
}

fn shown(path: &str) -> Shown {
    Shown {
        at: path.into(),
        real: path.into(),
        kind: Kind::Directory,
    }
}

fn program(path: &str) -> Program {
    Program {
        links: Vec::new(),
        file: path.into(),
        package: path.into(),
    }
}

#[test]
fn a_project_in_the_home() {
    let plan = Plan::build(&request("/home/ada/src/project"), &facts()).unwrap();
    insta::assert_snapshot!(plan);
}

#[test]
fn a_project_with_a_strange_name_in_a_masked_place() {
    let mut request = request("/tmp");
    request.project = Path::new("/tmp").join(OsStr::from_bytes(b"--x \n\xff"));
    request.directory = request.project.join("sub");
    let plan = Plan::build(&request, &facts()).unwrap();
    insta::assert_snapshot!(plan);
}

#[test]
fn a_toolchain_that_is_a_link_and_a_command_in_the_home() {
    let mut facts = facts();
    let nvm = Shown {
        real: "/srv/nvm".into(),
        ..shown("/home/ada/.nvm")
    };
    facts.toolchains.push(Found {
        directories: vec![nvm],
        ..Found::default()
    });
    let link = Hop {
        at: "/home/ada/.local/bin/agent".into(),
        target: "../agent/1.0/agent".into(),
    };
    facts.programs = vec![Program {
        links: vec![link],
        ..program("/home/ada/.local/agent/1.0/agent")
    }];
    facts.search.push(shown("/home/ada/.local/bin"));
    let plan = Plan::build(&request("/opt/project"), &facts).unwrap();
    insta::assert_snapshot!(plan);
}

#[test]
fn a_home_behind_a_link() {
    let mut facts = facts();
    facts.user.real_home = "/opt/homes/ada".into();
    facts.toolchains = Vec::new();
    let plan = Plan::build(&request("/opt/homes/ada/project"), &facts).unwrap();
    insta::assert_snapshot!(plan);
}

#[test]
fn what_belongs_to_the_project_is_never_covered() {
    let mut facts = facts();
    facts.toolchains = vec![Found {
        directories: vec![shown("/home/ada/project/tools"), shown("/home/ada")],
        ..Found::default()
    }];
    let plan = Plan::build(&request("/home/ada/project"), &facts).unwrap();
    let below = |path: &PathBuf| path.starts_with("/home/ada/project");
    assert_eq!(
        plan.mounts.iter().filter(|mount| below(&mount.at)).count(),
        1
    );
    assert!(
        plan.to_string()
            .contains("write \"/home/ada\" from the private home")
    );
}

#[test]
fn a_project_that_would_show_too_much_is_refused() {
    for project in [
        "/",
        "/home",
        "/home/ada",
        "/proc/self",
        "/aegis/x",
        "/home/ada/.aegis/sessions",
        "relative",
    ] {
        let error = Plan::build(&request(project), &facts()).unwrap_err();
        assert!(matches!(error, SandboxError::Path { .. }), "{project}");
    }
}

#[test]
fn the_private_home_knows_who_commits() {
    let plan = Plan::build(&request("/opt/project"), &facts()).unwrap();
    let [(name, content)] = plan.home_files.as_slice() else {
        unreachable!("there is one file")
    };
    assert_eq!(name, Path::new(".gitconfig"));
    assert_eq!(
        String::from_utf8_lossy(content),
        "[user]\n\tname = \"Ada \\\"A\\\" L\"\n"
    );
}
