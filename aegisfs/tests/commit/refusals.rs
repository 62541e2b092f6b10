//! What may not land, and what hangs on it.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use aegisfs::commit::{Plan, Reason};
use rustix::fs::FileType;

use super::env::{Env, chmod, write};

fn refused(plan: &Plan) -> BTreeMap<String, Reason> {
    plan.items()
        .iter()
        .filter_map(|item| Some((item.path.to_string(), item.refusal.clone()?)))
        .collect()
}

/// Lands, and gives back what was refused: that and only that is missing on the host.
fn only(env: &Env) -> BTreeMap<String, Reason> {
    let refused = refused(&env.plan());
    let landed = env.land();
    for (outcome, _) in landed.left() {
        assert!(
            !env.project.join(outcome.path.as_path()).exists(),
            "{outcome:?}"
        );
    }
    assert_eq!(landed.left().count(), refused.len());
    refused
}

fn nothing(_: &Path) {}

#[test]
fn nested_repositories() {
    let env = Env::new(nothing);
    write(
        &env.agent.join("vendor/x/.git/HEAD"),
        "ref: refs/heads/main\n",
    );
    write(&env.agent.join("vendor/y/.GIT"), "gitdir: ../../evil\n");
    write(&env.agent.join("vendor/fine"), "fine\n");
    let refused = only(&env);
    assert_eq!(
        refused.get("vendor/x/.git"),
        Some(&Reason::NestedRepository)
    );
    assert_eq!(
        refused.get("vendor/x/.git/HEAD"),
        Some(&Reason::NestedRepository)
    );
    assert_eq!(
        refused.get("vendor/y/.GIT"),
        Some(&Reason::NestedRepository)
    );
    assert!(env.project.join("vendor/fine").exists());
    assert!(!env.project.join("vendor/y/.GIT").exists());
}

#[test]
fn a_repository_of_the_agents_own() {
    let env = Env::new(nothing);
    write(
        &env.agent.join(".git/config"),
        "[core]\n\tfsmonitor = evil\n",
    );
    assert_eq!(only(&env).get(".git/config"), Some(&Reason::RepositoryMade));
}

#[test]
fn bare_repository_shapes() {
    let env = Env::new(|root| {
        fs::create_dir_all(root.join("half/objects")).unwrap();
        fs::create_dir_all(root.join("half/refs")).unwrap();
    });
    write(&env.agent.join("half/HEAD"), "ref: refs/heads/main\n");
    write(&env.agent.join("bare/HEAD"), "ref: refs/heads/main\n");
    fs::create_dir_all(env.agent.join("bare/objects")).unwrap();
    write(&env.agent.join("bare/refs/x"), "x\n");
    write(&env.agent.join("common/head"), "x\n");
    write(&env.agent.join("common/commondir"), "x\n");
    write(&env.agent.join("HEAD"), "only a file\n");
    let refused = only(&env);
    for name in [
        "half/HEAD",
        "bare/HEAD",
        "bare/objects",
        "bare/refs",
        "common/commondir",
    ] {
        assert_eq!(refused.get(name), Some(&Reason::BareRepository), "{name}");
    }
    assert_eq!(
        refused.get("bare/refs/x"),
        Some(&Reason::Parent("bare/refs".to_owned()))
    );
    assert_eq!(refused.get("HEAD"), None);
}

#[test]
fn repositories_that_the_host_has_under_other_names() {
    let env = Env::new(|root| {
        for name in ["fixtures/one.git", "half"] {
            write(&root.join(name).join("HEAD"), "ref: refs/heads/main\n");
            write(&root.join(name).join("config"), "[core]\n\tbare = true\n");
            fs::create_dir_all(root.join(name).join("objects")).unwrap();
        }
        fs::create_dir_all(root.join("fixtures/one.git/refs")).unwrap();
    });
    let locked = [
        "config",
        "hooks/post-update",
        "HOOKS/pre-receive",
        "commondir",
        "info/attributes",
        "objects/info/alternates",
    ];
    for name in locked.iter().chain(&["refs/heads/main", "description"]) {
        write(&env.agent.join("fixtures/one.git").join(name), "changed\n");
    }
    write(&env.agent.join("half/config"), "changed\n");
    let refused = refused(&env.plan());
    for name in locked {
        let name = format!("fixtures/one.git/{name}");
        assert!(
            matches!(
                refused.get(&name),
                Some(Reason::BareRepository | Reason::Parent(_))
            ),
            "{name}: {refused:?}"
        );
    }
    env.land();
    let read = |name: &str| fs::read_to_string(env.project.join(name)).unwrap();
    assert!(read("fixtures/one.git/config").contains("bare"));
    assert_eq!(read("fixtures/one.git/refs/heads/main"), "changed\n");
    assert_eq!(read("half/config"), "changed\n");
    for name in [
        "hooks",
        "HOOKS",
        "commondir",
        "info",
        "objects/info/alternates",
    ] {
        assert!(
            !env.project.join("fixtures/one.git").join(name).exists(),
            "{name}"
        );
    }
}

#[test]
fn links_out_of_the_project() {
    let env = Env::new(|root| symlink("/etc", root.join("hosts-own")).unwrap());
    symlink("/etc/passwd", env.agent.join("absolute")).unwrap();
    symlink("../outside", env.agent.join("up")).unwrap();
    symlink("hosts-own/passwd", env.agent.join("through")).unwrap();
    symlink("a/../../b", env.agent.join("climbing")).unwrap();
    symlink("inside", env.agent.join("fine")).unwrap();
    let refused = only(&env);
    assert_eq!(refused.get("absolute"), Some(&Reason::LinkLeaves));
    assert_eq!(refused.get("up"), Some(&Reason::LinkLeaves));
    assert_eq!(refused.get("through"), Some(&Reason::LinkLeaves));
    assert_eq!(refused.get("climbing"), Some(&Reason::LinkClimbs));
    assert_eq!(refused.len(), 4);
}

#[test]
fn special_files_and_bits() {
    let env = Env::new(nothing);
    write(&env.agent.join("suid"), "x\n");
    chmod(&env.agent.join("suid"), 0o4755);
    rustix::fs::mkfifoat(
        rustix::fs::CWD,
        env.agent.join("pipe"),
        rustix::fs::Mode::RWXU,
    )
    .unwrap();
    for (name, kind) in [
        ("character", FileType::CharacterDevice),
        ("block", FileType::BlockDevice),
    ] {
        let number = rustix::fs::makedev(1, 7);
        rustix::fs::mknodat(
            rustix::fs::CWD,
            env.agent.join(name),
            kind,
            rustix::fs::Mode::RWXU,
            number,
        )
        .unwrap();
    }
    let refused = only(&env);
    assert_eq!(refused.get("suid"), Some(&Reason::SetId));
    for name in ["pipe", "character", "block"] {
        assert_eq!(refused.get(name), Some(&Reason::SpecialFile), "{name}");
    }
}

#[test]
fn names_that_are_one_elsewhere() {
    let env = Env::new(|root| write(&root.join("README"), "x\n"));
    write(&env.agent.join("ReadMe"), "x\n");
    write(&env.agent.join("caf\u{e9}"), "x\n");
    write(&env.agent.join("cafe\u{301}"), "x\n");
    let refused = only(&env);
    assert_eq!(
        refused.get("ReadMe"),
        Some(&Reason::Collides("README".to_owned()))
    );
    assert_eq!(refused.len(), 3, "{refused:?}");
}

#[test]
fn a_rename_that_changes_only_letter_case_lands() {
    let mut env = Env::new(|root| write(&root.join("README"), "x\n"));
    env.agent_moves("README", "ReadMe");
    assert_eq!(env.land().left().count(), 0);
    assert!(env.project.join("ReadMe").exists());
}

#[test]
fn names_that_a_terminal_does_not_show() {
    let env = Env::new(nothing);
    write(&env.agent.join("a\x1b[2K"), "x\n");
    write(&env.agent.join("d\u{202e}x/inner"), "x\n");
    let refused = only(&env);
    assert_eq!(refused.get("a\\u{1b}[2K"), Some(&Reason::DeceptiveName));
    assert_eq!(refused.len(), 3, "{refused:?}");
}

#[test]
fn sensitive_names_are_marked() {
    let env = Env::new(nothing);
    write(&env.agent.join("Makefile"), "all:\n");
    write(&env.agent.join("plain"), "x\n");
    let plan = env.plan();
    let sensitive: Vec<_> = plan
        .items()
        .iter()
        .filter(|item| item.is_sensitive())
        .map(|item| item.path.to_string())
        .collect();
    assert_eq!(sensitive, ["Makefile"]);
}

#[test]
fn a_link_of_the_hosts_is_not_followed() {
    let env = Env::new(|root| write(&root.join("directory/deep/file"), "x\n"));
    write(&env.agent.join("directory/deep/file"), "changed\n");
    write(&env.agent.join("directory/deep/new"), "new\n");
    // Once to the outside and once to another place inside.
    for (place, target) in [
        ("outside", "../outside"),
        ("project/elsewhere", "elsewhere"),
    ] {
        let place = env.temp.path().join(place);
        let directory = env.project.join("directory");
        fs::rename(&directory, &place).unwrap();
        symlink(target, &directory).unwrap();
        let landed = env.land();
        assert_eq!(landed.left().count(), 2, "{landed:?}");
        assert_eq!(fs::read_dir(place.join("deep")).unwrap().count(), 1);
        assert_eq!(fs::read_to_string(place.join("deep/file")).unwrap(), "x\n");
        fs::remove_file(&directory).unwrap();
        fs::rename(&place, &directory).unwrap();
    }
}
