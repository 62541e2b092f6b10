//! git inside works, and the host's `.git` stays as it is until a landing.

use aegis_tests::{TestEnv, tree};

/// Fixed identity and dates, so that two runs make the same commits.
const IDENTITY: &str = "export GIT_AUTHOR_NAME=A GIT_AUTHOR_EMAIL=a@example.org \
    GIT_COMMITTER_NAME=A GIT_COMMITTER_EMAIL=a@example.org \
    GIT_AUTHOR_DATE='2026-01-02T03:04:05Z' GIT_COMMITTER_DATE='2026-01-02T03:04:05Z'\n";

const WORK: &str = "
    test -z \"$(git status --porcelain)\"
    echo four >> README.md && git diff --stat | grep -q README.md
    git checkout -q -b topic && git add README.md && git commit -q -m 'second'
    git mv keep.txt kept.txt && rm src/greet.py && echo new > new.txt && git add -A
    git commit -q -m 'third' && git log --oneline | wc -l | grep -qx 3
    echo dirty >> new.txt && git stash -q && test -z \"$(git status --porcelain)\"
    git stash pop -q && git checkout -q -- new.txt
    git blame README.md > /dev/null && git branch side main && git tag -a v1 -m one
    git checkout -q main && git merge -q --no-ff topic -m 'merge' && git fsck --strict 2>&1";

const FACTS: &str = "git log --all --graph --format='%H %s %an %ad' && git ls-files -s \
    && git for-each-ref && git status --porcelain && git fsck --strict";

#[test]
fn the_hosts_repository_is_bit_identical_after_a_session() {
    let env = TestEnv::with_repository();
    let git = env.project().join(".git");
    let (before, stamps) = (tree::read(&git, &[]), tree::stamps(&git));
    let project = tree::read(env.project(), &[]);
    let _ = env.run(&format!("{IDENTITY}{WORK}")).ok();
    tree::assert_same(&tree::read(&git, &[]), &before);
    tree::assert_untouched(&git, &stamps);
    tree::assert_same(&tree::read(env.project(), &[]), &project);
}

#[test]
fn a_status_that_changes_nothing_trusts_the_hosts_index() {
    let env = TestEnv::with_repository();
    // With the host's inode numbers, times and owner shown as they are, git finds the index fresh
    // and opens no file to hash it again.
    let script = "git status --porcelain; git diff-files --quiet && echo fresh";
    let seen = env.run(script).ok().stdout;
    assert!(seen.contains("fresh"), "{seen}");
}

#[test]
fn commits_land_as_commits() {
    let env = TestEnv::with_repository();
    let project = env.project().display();
    let _ = env.sh(&format!("cp -a '{project}' \"$HOME/seed\"")).ok();
    let _ = env.run(&format!("{IDENTITY}{WORK}")).ok();
    env.land();
    let landed = (
        env.sh(FACTS).ok().stdout,
        tree::read(env.project(), &[".git"]),
    );

    let _ = env
        .sh(&format!(
            "cd; rm -rf '{project}'; cp -a \"$HOME/seed\" '{project}'"
        ))
        .ok();
    let _ = env.sh(&format!("{IDENTITY}{WORK}")).ok();
    let plain = (
        env.sh(FACTS).ok().stdout,
        tree::read(env.project(), &[".git"]),
    );
    assert_eq!(landed.0, plain.0);
    tree::assert_same(&landed.1, &plain.1);
}

/// Things that move many of git's own files, or keep them elsewhere.
#[test]
fn worktrees_rebases_and_collections_work() {
    let env = TestEnv::with_repository();
    let before = tree::read(&env.project().join(".git"), &[]);
    let script = "
        git worktree add -q -b side tree && echo side > tree/side.txt
        git -C tree add -A && git -C tree commit -q -m side && git worktree list | wc -l | grep -qx 2
        git worktree remove tree && echo main > main.txt && git add -A && git commit -q -m main
        git checkout -q side && git rebase -q main && git log --oneline | wc -l | grep -qx 3
        git reset -q --hard HEAD~1 && git clean -fdq && git cherry-pick side@{1} > /dev/null
        git gc -q && git fsck --strict && git show HEAD:keep.txt && git grep -q keep
        git submodule status && git bisect start -q 2> /dev/null; git bisect reset 2> /dev/null; true";
    let _ = env.run(&format!("{IDENTITY}{script}")).ok();
    tree::assert_same(&tree::read(&env.project().join(".git"), &[]), &before);
}

#[test]
fn names_that_git_would_execute_are_locked_even_where_they_do_not_exist() {
    let env = TestEnv::with_repository();
    let before = tree::read(&env.project().join(".git"), &[]);
    let tries = r#"
        failed() { "$@" 2>/dev/null && echo "DONE: $*" || true; }
        failed git config core.fsmonitor ./evil
        failed sh -c 'echo "[core]" >> .git/config'
        failed sh -c 'echo evil > .git/hooks/pre-commit'
        failed sh -c 'rm -rf .git/hooks && mkdir .git/hooks && echo evil > .git/hooks/pre-commit'
        failed sh -c 'mv .git/hooks .git/h2'
        failed sh -c 'echo "* filter=evil" > .git/info/attributes'
        failed sh -c 'mkdir -p .git/objects/info && echo /tmp > .git/objects/info/alternates'
        failed sh -c 'echo ../elsewhere > .git/commondir'
        failed sh -c 'echo x > .git/config.worktree'
        failed sh -c 'mkdir -p .git/modules/m && echo x > .git/modules/m/config'
        failed ln -s ../evil .git/hooks/post-checkout
        failed ln README.md .git/hooks/post-merge
        failed mv README.md .git/hooks/post-merge
        failed mv .git .git-aside
        echo end"#;
    let seen = env.run(tries).ok();
    assert!(!seen.stdout.contains("DONE"), "{}", seen.stdout);
    assert!(seen.stdout.contains("end"), "{}", seen.output());
    tree::assert_same(&tree::read(&env.project().join(".git"), &[]), &before);
}
