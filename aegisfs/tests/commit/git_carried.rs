//! What commits, tags and the index bring beyond the files of the work tree, and records that must
//! not land.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use aegisfs::commit::{Frozen, Landed, Reason};

use super::env::{Env, chmod, labels, write};
use super::git::{commit, git, repository};

fn frozen(env: &Env) -> Frozen {
    let mut frozen = env.freeze();
    frozen.label(&labels);
    frozen
}

fn carried(frozen: &Frozen) -> Vec<(String, &str, bool, bool)> {
    let carried = frozen.carried().iter();
    carried
        .map(|one| {
            let path = one.path.to_string();
            (path, one.within.as_str(), one.removes, one.sensitive)
        })
        .collect()
}

fn broken(landed: &Landed) -> Vec<String> {
    let left = landed.left();
    left.filter_map(|(_, reason)| match reason {
        Reason::GitBroken(why) => Some(why.clone()),
        _ => None,
    })
    .collect()
}

/// Nothing of the repository's records landed, for the reason `why`.
fn assert_held(env: &Env, why: &str) {
    let before = git(&env.project, &["for-each-ref"]);
    let head = fs::read(env.project.join(".git/HEAD")).unwrap();
    let landed = env.land();
    let reasons = broken(&landed);
    assert!(
        reasons.iter().any(|reason| reason.contains(why)),
        "{why}: {landed:?}"
    );
    assert_eq!(git(&env.project, &["for-each-ref"]), before);
    assert_eq!(fs::read(env.project.join(".git/HEAD")).unwrap(), head);
}

#[test]
fn what_a_commit_has_and_the_work_tree_has_not_is_told() {
    let env = Env::new(repository);
    write(&env.agent.join("Makefile"), "all:\n\tevil\n");
    write(&env.agent.join("plain"), "plain\n");
    write(&env.agent.join("new"), "lands as a file\n");
    commit(&env.agent, "docs: typo");
    fs::remove_file(env.agent.join("Makefile")).unwrap();
    fs::remove_file(env.agent.join("plain")).unwrap();
    let frozen = frozen(&env);
    let told = carried(&frozen);
    let names: Vec<_> = told
        .iter()
        .map(|(path, _, removes, sensitive)| (path.as_str(), *removes, *sensitive))
        .collect();
    assert_eq!(names, [("Makefile", false, true), ("plain", false, false)]);
    assert!(frozen.carries_sensitive());
    let records = frozen.entries().iter();
    let mut records = records.filter(|entry| entry.path.as_bytes().starts_with(b".git/refs/"));
    assert!(records.all(|entry| entry.sensitive));
}

#[test]
fn a_commit_of_what_lands_carries_nothing() {
    let env = Env::new(repository);
    write(&env.agent.join("Makefile"), "all:\n");
    write(&env.agent.join("file"), "two\n");
    chmod(&env.agent.join("other"), 0o755);
    commit(&env.agent, "second");
    git(&env.agent, &["tag", "-a", "v1", "-m", "one"]);
    git(&env.agent, &["branch", "old", "HEAD~1"]);
    let frozen = frozen(&env);
    assert_eq!(carried(&frozen), []);
    assert!(!frozen.carries_sensitive());
    let moves: Vec<_> = frozen.moves().iter().map(|one| one.name.as_str()).collect();
    assert_eq!(moves, ["refs/heads/main", "refs/heads/old", "refs/tags/v1"]);
}

#[test]
fn before_it_is_labelled_everything_counts_as_sensitive() {
    let env = Env::new(repository);
    write(&env.agent.join("plain"), "plain\n");
    commit(&env.agent, "second");
    fs::remove_file(env.agent.join("plain")).unwrap();
    assert!(env.freeze().carries_sensitive());
    assert!(!frozen(&env).carries_sensitive());
}

#[test]
fn tags_packed_references_and_another_head_are_looked_into() {
    let env = Env::new(repository);
    git(&env.agent, &["checkout", "-q", "-b", "topic"]);
    write(&env.agent.join(".github/workflows/ci.yml"), "evil\n");
    commit(&env.agent, "evil");
    git(&env.agent, &["tag", "-a", "v9", "-m", "x"]);
    git(&env.agent, &["reset", "-q", "--hard", "HEAD~1"]);
    git(&env.agent, &["pack-refs", "--all"]);
    fs::remove_file(env.agent.join(".git/ORIG_HEAD")).unwrap();
    let frozen = frozen(&env);
    assert_eq!(
        carried(&frozen),
        [(
            ".github/workflows/ci.yml".to_owned(),
            "refs/tags/v9",
            false,
            true
        )]
    );
    let advances: Vec<_> = frozen
        .advances()
        .iter()
        .map(|one| (one.reference.as_str(), one.commits))
        .collect();
    assert_eq!(advances, [("heads/topic", 0)]);
    let moves: Vec<_> = frozen
        .moves()
        .iter()
        .map(|one| (one.name.as_str(), one.old.as_deref(), one.new.is_some()))
        .collect();
    assert_eq!(
        moves,
        [
            ("HEAD", Some("refs/heads/main"), true),
            ("refs/heads/topic", None, true),
            ("refs/tags/v9", None, true)
        ]
    );
}

#[test]
fn what_is_only_staged_is_told() {
    let env = Env::new(repository);
    write(&env.agent.join("Makefile"), "evil\n");
    git(&env.agent, &["add", "Makefile"]);
    fs::remove_file(env.agent.join("Makefile")).unwrap();
    let frozen = frozen(&env);
    let expected = [("Makefile".to_owned(), "index", false, true)];
    assert_eq!(carried(&frozen), expected);
}

#[test]
fn what_a_commit_removes_and_the_work_tree_keeps_is_told() {
    let env = Env::new(|root| {
        write(&root.join("Makefile"), "all:\n");
        repository(root);
    });
    git(&env.agent, &["rm", "-q", "--cached", "Makefile"]);
    git(&env.agent, &["commit", "-q", "-m", "removed"]);
    let told = frozen(&env);
    let expected = [("Makefile".to_owned(), "refs/heads/main", true, true)];
    assert_eq!(carried(&told), expected);
}

#[test]
fn references_to_what_is_not_there_do_not_land() {
    let nowhere = "1234567890123456789012345678901234567890\n";
    for name in ["refs/heads/main", "refs/tags/x", "HEAD", "MERGE_HEAD"] {
        let env = Env::new(repository);
        write(&env.agent.join(".git").join(name), nowhere);
        assert_held(&env, "is missing or broken");
    }
    let env = Env::new(repository);
    write(
        &env.agent.join(".git/packed-refs"),
        format!("{} refs/heads/x\n", nowhere.trim()),
    );
    assert_held(&env, "is missing or broken");
}

#[test]
fn references_that_lead_to_no_commit_do_not_land() {
    let env = Env::new(repository);
    let blob = git(&env.agent, &["rev-parse", "HEAD:file"]);
    write(&env.agent.join(".git/refs/tags/blob"), blob);
    assert_held(&env, "is not a commit");
    let env = Env::new(repository);
    write(
        &env.agent.join(".git/refs/heads/loop"),
        "ref: refs/heads/loop\n",
    );
    assert_held(&env, "does not lead to a commit");
}

#[test]
fn a_commit_that_lacks_an_object_does_not_land() {
    for what in ["HEAD:file", "HEAD^{tree}", "HEAD~1", "HEAD~1:file"] {
        let env = Env::new(repository);
        for text in ["two\n", "three\n"] {
            write(&env.agent.join("file"), text);
            commit(&env.agent, text);
        }
        let object = git(&env.agent, &["rev-parse", what]);
        let (prefix, rest) = object.trim().split_at(2);
        let object = env.agent.join(format!(".git/objects/{prefix}/{rest}"));
        fs::remove_file(object).unwrap();
        assert_held(&env, "missing");
    }
}

#[test]
fn names_that_mislead_do_not_land() {
    for name in ["refs/heads/-evil", "refs/heads/HEAD", "refs/tags/-x"] {
        let env = Env::new(repository);
        let head = git(&env.agent, &["rev-parse", "HEAD"]);
        write(&env.agent.join(".git").join(name), head);
        assert_held(&env, "well-formed");
    }
    for (name, content) in [
        ("HEAD", "ref: refs/heads/-evil\n"),
        ("FETCH_HEAD", "\x1b]0;title\x07"),
        ("MERGE_HEAD", "garbage"),
    ] {
        let env = Env::new(repository);
        write(&env.agent.join(".git").join(name), content);
        assert_held(&env, "well-formed");
    }
}

#[test]
fn modes_inside_the_repository_are_the_hosts() {
    let env = Env::new(|root| {
        repository(root);
        chmod(&root.join(".git/HEAD"), 0o640);
    });
    git(&env.agent, &["checkout", "-q", "-b", "topic/x"]);
    git(&env.agent, &["commit", "-q", "--allow-empty", "-m", "x"]);
    for (name, mode) in [
        ("HEAD", 0),
        ("index", 0),
        ("refs/heads/topic/x", 0o777),
        ("logs/HEAD", 0o777),
    ] {
        chmod(&env.agent.join(".git").join(name), mode);
    }
    chmod(&env.agent.join(".git/refs/heads/topic"), 0o777);
    assert_eq!(broken(&env.land()), [""; 0]);
    let mode = |name: &str| {
        let metadata = fs::metadata(env.project.join(".git").join(name)).unwrap();
        metadata.permissions().mode() & 0o7777
    };
    assert_eq!(mode("HEAD"), 0o640);
    assert_eq!(mode("refs/heads/topic/x"), 0o644);
    assert_eq!(mode("refs/heads/topic"), 0o755);
    assert_eq!(mode("logs/HEAD"), 0o644);
    let head = git(&env.project, &["rev-parse", "HEAD"]);
    let (prefix, rest) = head.trim().split_at(2);
    assert_eq!(mode(&format!("objects/{prefix}/{rest}")), 0o444);
}

#[test]
fn large_loose_objects_are_checked_in_parts_and_too_large_ones_not_at_all() {
    let env = Env::new(repository);
    write(&env.agent.join("large"), vec![7; 20 << 20]);
    commit(&env.agent, "large");
    assert_eq!(broken(&env.land()), [""; 0]);
    git(&env.project, &["fsck", "--strict"]);

    let env = Env::new(repository);
    write(&env.agent.join("large"), vec![0; 300 << 20]);
    let large = [
        "-c",
        "core.bigFileThreshold=1g",
        "hash-object",
        "-w",
        "large",
    ];
    git(&env.agent, &large);
    fs::remove_file(env.agent.join("large")).unwrap();
    let landed = env.land();
    let reasons = broken(&landed);
    assert!(reasons[0].contains("too many"), "{reasons:?}");
}
