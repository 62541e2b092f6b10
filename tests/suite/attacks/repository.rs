//! Repository code that read-only git commands of the host would run.

use aegis_tests::Finished;

use super::World;

/// Plants something, lands everything that lands, and lets the host use git as a person would.
/// The damage is done when the planted program ran on the host.
#[track_caller]
fn plant(script: &str) {
    let with_marker = |world: &World| {
        let marker = world.env.home().join("ran");
        script.replace("MARKER", marker.to_str().unwrap())
    };
    let hosts_git = |world: &World| {
        let _ = world.env.sh(
            "set +e; git status; git diff; git log -p -1; git add -A; git commit -q -m host; \
             for d in $(find . -name .git -prune -o -type d -print); do (cd $d; git status); done; true",
        );
    };
    let ran = |world: &World| world.env.home().join("ran").exists();
    let started = |seen: &Finished| {
        assert!(seen.stdout.contains("STARTED"), "{}", seen.output());
    };

    let world = World::new();
    started(&world.bare(&with_marker(&world)));
    hosts_git(&world);
    assert!(ran(&world), "bare, the planted program does not run either");

    let world = World::new();
    started(&world.enforced(&with_marker(&world)));
    let landing = world.env.aegis(&["land", "--yes"]);
    let _ = std::fs::remove_file(world.env.home().join("ran"));
    hosts_git(&world);
    assert!(
        !ran(&world),
        "the planted program ran on the host; landing: {}",
        landing.output()
    );
}

#[test]
fn a_file_system_monitor() {
    plant("printf '#!/bin/sh\\ntouch MARKER\\n' > evil; chmod 755 evil
           git config core.fsmonitor ./evil; printf '[core]\\nfsmonitor = ./evil\\n' >> .git/config");
}

#[test]
fn a_hook() {
    plant("printf '#!/bin/sh\\ntouch MARKER\\n' > .git/hooks/pre-commit; chmod 755 .git/hooks/pre-commit
           printf '#!/bin/sh\\ntouch MARKER\\n' > h; chmod 755 h; mv h .git/hooks/post-index-change");
}

#[test]
fn a_filter_of_the_content() {
    plant("git config filter.x.clean 'touch MARKER; cat'
           echo '* filter=x' > .gitattributes; echo '* filter=x' > .git/info/attributes; echo >> keep.txt");
}

#[test]
fn an_external_diff() {
    plant("git config diff.external 'touch MARKER; true'; echo change >> keep.txt");
}

#[test]
fn a_nested_repository() {
    plant(
        "mkdir -p sub && cd sub && git init -q . && printf '#!/bin/sh\\ntouch MARKER\\n' > evil
           chmod 755 evil; git config core.fsmonitor ./evil
           printf '[core]\\nfsmonitor = ./evil\\n' >> .git/config",
    );
}

#[test]
fn a_bare_repository_among_the_files() {
    plant("mkdir -p docs/objects docs/refs; cd docs; echo 'ref: refs/heads/main' > HEAD
           printf '#!/bin/sh\\ntouch MARKER\\n' > evil; chmod 755 evil
           printf '[core]\\nrepositoryformatversion = 0\\nbare = false\\nworktree = .\\nfsmonitor = ./evil\\n' > config");
}

#[test]
fn a_repository_that_points_elsewhere() {
    plant(
        "cp -r .git other-git; printf '#!/bin/sh\\ntouch MARKER\\n' > evil; chmod 755 evil
           printf '[core]\\nfsmonitor = %s/evil\\n' \"$PWD\" >> other-git/config
           rm -rf .git; echo 'gitdir: other-git' > .git",
    );
}
