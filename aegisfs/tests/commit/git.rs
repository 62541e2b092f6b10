//! The project's own repository: commits of the agent's land as commits, and nothing else does.

use std::fs;
use std::path::Path;
use std::process::Command;

use aegisfs::commit::{Reason, Reversal};

use super::env::{Env, tree, write};

/// Runs git in a directory without anybody's configuration.
pub fn git(at: &Path, arguments: &[&str]) -> String {
    let output = Command::new("git")
        .args([
            "-c",
            "user.name=A",
            "-c",
            "user.email=a@example.org",
            "-c",
            "core.fsync=none",
        ])
        .args(["-c", "gc.auto=0", "-c", "init.defaultBranch=main"])
        .args(arguments)
        .current_dir(at)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

pub fn repository(root: &Path) {
    git(root, &["init", "-q"]);
    write(&root.join("file"), "one\n");
    write(&root.join("other"), "other\n");
    git(root, &["add", "."]);
    git(root, &["commit", "-q", "-m", "first"]);
}

pub fn commit(at: &Path, message: &str) {
    git(at, &["add", "-A"]);
    git(at, &["commit", "-q", "-m", message]);
}

fn without_git(env: &Env) -> super::env::Tree {
    env.host()
        .into_iter()
        .filter(|(name, _)| !name.starts_with(".git"))
        .collect()
}

fn reasons(landed: &aegisfs::commit::Landed) -> Vec<(String, Reason)> {
    landed
        .left()
        .map(|(outcome, reason)| (outcome.path.to_string(), reason.clone()))
        .collect()
}

#[test]
fn a_commit_lands_as_a_commit() {
    let env = Env::new(repository);
    write(&env.agent.join("file"), "two\n");
    write(&env.agent.join("new"), "new\n");
    commit(&env.agent, "second\x1b[2J");
    git(&env.agent, &["branch", "topic/x"]);
    let frozen = env.freeze();
    let told: Vec<_> = frozen
        .advances()
        .iter()
        .map(|one| (one.reference.as_str(), one.commits))
        .collect();
    assert_eq!(told, [("heads/main", 1), ("heads/topic/x", 1)]);
    assert_eq!(frozen.advances()[0].summaries, ["second\\u{1b}[2J"]);
    drop(frozen);
    let landed = env.land();
    assert_eq!(reasons(&landed), []);
    assert_eq!(git(&env.project, &["status", "--porcelain"]), "");
    assert_eq!(
        git(&env.project, &["log", "--format=%H"]),
        git(&env.agent, &["log", "--format=%H"])
    );
    assert_eq!(
        git(&env.project, &["rev-parse", "topic/x"]),
        git(&env.agent, &["rev-parse", "main"])
    );
    git(&env.project, &["fsck", "--strict"]);
    assert!(env.plan().items().iter().all(|item| item.refusal.is_none()));
    assert_eq!(
        env.land().changed(),
        0,
        "a second landing has nothing to do"
    );
}

#[test]
fn a_status_inside_is_no_change() {
    let env = Env::new(repository);
    git(&env.agent, &["status"]);
    write(&env.agent.join(".git/index.lock"), "");
    let before = env.host();
    assert_eq!(env.land().changed(), 0);
    assert_eq!(env.host(), before);
}

#[test]
fn a_pack_lands_when_its_index_is_true() {
    let env = Env::new(repository);
    write(&env.agent.join("file"), "two\n");
    commit(&env.agent, "second");
    git(&env.agent, &["repack", "-a", "-d", "-q"]);
    git(&env.agent, &["pack-refs", "--all"]);
    let landed = env.land();
    assert_eq!(reasons(&landed), []);
    assert_eq!(
        git(&env.project, &["log", "--format=%s"]),
        "second\nfirst\n"
    );
    git(&env.project, &["fsck", "--strict"]);
    assert_eq!(git(&env.project, &["status", "--porcelain"]), "");
}

#[test]
fn a_pack_with_a_false_index_does_not_land() {
    let env = Env::new(repository);
    write(&env.agent.join("file"), "two\n");
    commit(&env.agent, "second");
    git(&env.agent, &["repack", "-a", "-d", "-q"]);
    let packs = env.agent.join(".git/objects/pack");
    for entry in fs::read_dir(packs).unwrap() {
        let at = entry.unwrap().path();
        if at.extension().is_some_and(|kind| kind == "idx") {
            let mut bytes = fs::read(&at).unwrap();
            bytes[1040] ^= 1;
            super::env::chmod(&at, 0o644);
            fs::write(&at, bytes).unwrap();
        }
    }
    let head = git(&env.project, &["rev-parse", "HEAD"]);
    let landed = env.land();
    let left = reasons(&landed);
    assert!(
        left.iter()
            .any(|(_, reason)| matches!(reason, Reason::GitBroken(_))),
        "{left:?}"
    );
    assert!(
        left.iter()
            .any(|(name, reason)| name == ".git/refs/heads/main"
                && matches!(reason, Reason::GitTogether(_))),
        "{left:?}"
    );
    assert_eq!(git(&env.project, &["rev-parse", "HEAD"]), head);
    assert_eq!(
        fs::read_to_string(env.project.join("file")).unwrap(),
        "two\n",
        "files land alone"
    );
}

#[test]
fn a_loose_object_with_a_false_name_does_not_land() {
    let env = Env::new(repository);
    let object = git(&env.agent, &["rev-parse", "HEAD:file"]);
    let (prefix, rest) = object.trim().split_at(2);
    let bytes = fs::read(env.agent.join(format!(".git/objects/{prefix}/{rest}"))).unwrap();
    write(
        &env.agent
            .join(format!(".git/objects/ab/{}", "c".repeat(38))),
        bytes,
    );
    let left = reasons(&env.land());
    assert!(
        matches!(&left[..], [(name, Reason::GitBroken(_))] if name.starts_with(".git/objects/ab/")),
        "{left:?}"
    );
}

#[test]
fn what_git_runs_never_lands() {
    let env = Env::new(repository);
    let before = env.host();
    write(
        &env.agent.join(".git/config"),
        "[core]\n\tfsmonitor = touch /tmp/x\n",
    );
    write(&env.agent.join(".git/hooks/post-checkout"), "#!/bin/sh\n");
    write(&env.agent.join(".git/info/attributes"), "* filter=x\n");
    write(
        &env.agent.join(".git/objects/info/alternates"),
        "/elsewhere\n",
    );
    write(&env.agent.join(".git/commondir"), "/elsewhere\n");
    write(&env.agent.join(".git/modules/x/config"), "[core]\n");
    write(
        &env.agent.join(".git/rebase-merge/git-rebase-todo"),
        "exec touch /tmp/x\n",
    );
    write(&env.agent.join(".git/refs/replace/abc"), "x\n");
    let landed = env.land();
    assert_eq!(landed.changed(), 0, "{landed:?}");
    assert_eq!(env.host(), before);
}

#[test]
fn a_malformed_reference_keeps_all_of_them_out() {
    let env = Env::new(repository);
    write(&env.agent.join("file"), "two\n");
    commit(&env.agent, "second");
    write(
        &env.agent.join(".git/refs/heads/evil"),
        "ref: ../../../etc/passwd\n",
    );
    let head = git(&env.project, &["rev-parse", "HEAD"]);
    let left = reasons(&env.land());
    assert!(left.iter().any(|(name, _)| name == ".git/refs/heads/evil"));
    assert!(left.iter().any(|(name, _)| name == ".git/index"));
    assert_eq!(git(&env.project, &["rev-parse", "HEAD"]), head);
    git(&env.project, &["fsck"]);
}

#[test]
fn an_index_that_hides_changes_is_written_anew() {
    let env = Env::new(repository);
    write(&env.agent.join("staged"), "staged\n");
    git(&env.agent, &["add", "staged"]);
    write(&env.agent.join("file"), "hidden\n");
    git(&env.agent, &["update-index", "--assume-unchanged", "file"]);
    assert_eq!(reasons(&env.land()), []);
    let status = git(&env.project, &["status", "--porcelain"]);
    assert_eq!(status, " M file\nA  staged\n");
}

#[test]
fn when_the_host_commits_too_its_state_stays() {
    let env = Env::new(repository);
    write(&env.agent.join("file"), "agent\n");
    commit(&env.agent, "by the agent");
    write(&env.project.join("other"), "host\n");
    commit(&env.project, "by the host");
    let head = git(&env.project, &["rev-parse", "HEAD"]);
    let landed = env.land();
    assert!(
        reasons(&landed)
            .iter()
            .any(|(name, _)| name == ".git/refs/heads/main"),
        "{landed:?}"
    );
    assert_eq!(git(&env.project, &["rev-parse", "HEAD"]), head);
    assert_eq!(git(&env.project, &["status", "--porcelain"]), " M file\n");
    // The objects are there, so the commit can be had by its name.
    let commit = git(&env.agent, &["rev-parse", "HEAD"]);
    assert_eq!(
        git(&env.project, &["cat-file", "-t", commit.trim()]),
        "commit\n"
    );
}

#[test]
fn a_refreshed_index_of_the_hosts_is_no_conflict() {
    let env = Env::new(repository);
    write(&env.agent.join("file"), "agent\n");
    commit(&env.agent, "by the agent");
    // Touching a file and asking for the status makes git write its index anew.
    let bytes = fs::read(env.project.join("other")).unwrap();
    fs::write(env.project.join("other"), bytes).unwrap();
    git(&env.project, &["status"]);
    assert_eq!(reasons(&env.land()), []);
    assert_eq!(
        git(&env.project, &["log", "--format=%s"]),
        "by the agent\nfirst\n"
    );
}

#[test]
fn while_git_runs_on_the_host_its_state_stays() {
    let env = Env::new(repository);
    write(&env.agent.join("file"), "agent\n");
    commit(&env.agent, "by the agent");
    write(&env.project.join(".git/index.lock"), "");
    let left = reasons(&env.land());
    assert!(
        left.iter()
            .all(|(_, reason)| *reason == Reason::GitBusy(".git/index.lock".to_owned()))
    );
    assert!(!left.is_empty());
}

#[test]
fn a_landed_commit_is_taken_back() {
    let env = Env::new(repository);
    let before = without_git(&env);
    let head = git(&env.project, &["rev-parse", "HEAD"]);
    let reflog = fs::read(env.project.join(".git/logs/HEAD")).unwrap();
    write(&env.agent.join("file"), "agent\n");
    commit(&env.agent, "by the agent");
    git(&env.agent, &["checkout", "-q", "-b", "topic"]);
    assert_eq!(reasons(&env.land()), []);
    // The host looks at the tree in between, which refreshes its index.
    assert_eq!(git(&env.project, &["status", "--porcelain"]), "");
    let undone = Reversal::find(&env.site(), None)
        .unwrap()
        .apply(&env.site(), None)
        .unwrap();
    assert_eq!(reasons(&undone), []);
    assert_eq!(without_git(&env), before);
    assert_eq!(git(&env.project, &["rev-parse", "HEAD"]), head);
    assert_eq!(git(&env.project, &["branch", "--show-current"]), "main\n");
    assert_eq!(git(&env.project, &["status", "--porcelain"]), "");
    assert_eq!(
        fs::read(env.project.join(".git/logs/HEAD")).unwrap(),
        reflog
    );
    assert_eq!(reasons(&env.land()), [], "and lands again");
    assert_eq!(tree(&env.project).get("file"), tree(&env.agent).get("file"));
}

#[test]
fn a_rewritten_branch_says_what_it_drops() {
    let env = Env::new(|root| {
        repository(root);
        write(&root.join("file"), "two\n");
        commit(root, "second");
    });
    git(&env.agent, &["reset", "-q", "--hard", "HEAD~1"]);
    write(&env.agent.join("other"), "instead\n");
    commit(&env.agent, "instead");
    let frozen = env.freeze();
    let told: Vec<_> = frozen
        .advances()
        .iter()
        .map(|one| (one.commits, one.dropped))
        .collect();
    assert_eq!(told, [(1, 1)]);
}
