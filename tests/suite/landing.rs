//! The road back: what lands, what is merged, what is left alone, and taking it back.

use std::os::unix::fs::PermissionsExt;

use aegis_tests::{TestEnv, tree};

#[test]
fn nothing_reaches_the_project_before_it_is_landed() {
    let env = TestEnv::with_repository();
    let before = tree::read(env.project(), &[]);
    let stamps = tree::stamps(env.project());
    let _ = env
        .run("echo new > new.txt; echo more >> README.md; rm keep.txt")
        .ok();
    tree::assert_same(&tree::read(env.project(), &[]), &before);
    tree::assert_untouched(env.project(), &stamps);
}

#[test]
fn a_diff_names_what_changed() {
    let env = TestEnv::with_repository();
    let _ = env
        .run("echo new > new.txt; echo four >> README.md; rm keep.txt")
        .ok();
    let shown = env.aegis(&["diff"]).ok().stdout;
    for part in ["new.txt", "+new", "README.md", "+four", "keep.txt", "-keep"] {
        assert!(shown.contains(part), "`{part}` is missing:\n{shown}");
    }
    let some = env.aegis(&["diff", "new.txt"]).ok().stdout;
    assert!(
        some.contains("new.txt") && !some.contains("README.md"),
        "{some}"
    );
    let json = env.aegis(&["diff", "--json"]).ok().stdout;
    assert!(
        json.contains("new.txt") && serde_json_is_lines_or_one(&json),
        "{json}"
    );
}

#[test]
fn chosen_paths_land_and_the_rest_stays_in_the_session() {
    let env = TestEnv::with_repository();
    let _ = env.run("echo one > one.txt; echo two > two.txt").ok();
    let _ = env.aegis(&["land", "--yes", "one.txt"]).ok();
    assert_eq!(env.read("one.txt"), "one\n");
    assert!(!env.project().join("two.txt").exists());
    env.land();
    assert_eq!(env.read("two.txt"), "two\n");
}

#[test]
fn what_has_landed_is_not_landed_again() {
    let env = TestEnv::with_repository();
    let work = "mv src source; chmod 600 keep.txt; rm README.md; ln -s keep.txt link; echo n > new
        mv keep.txt kept.txt; git add -A; git commit -q -m work";
    let _ = env.run(work).ok();
    env.land();
    let (after, stamps) = (tree::read(env.project(), &[]), tree::stamps(env.project()));
    let shown = env.aegis(&["diff"]).ok();
    assert!(
        !shown.output().contains("source") && !shown.output().contains("conflict"),
        "{shown:?}"
    );
    env.land();
    tree::assert_same(&tree::read(env.project(), &[]), &after);
    tree::assert_untouched(env.project(), &stamps);
}

#[test]
fn a_session_goes_on_after_its_renames_have_landed() {
    let env = TestEnv::with_repository();
    let _ = env
        .run("mv keep.txt kept.txt; mv src source; chmod 600 README.md; mv README.md READ")
        .ok();
    env.land();
    let script = "cat kept.txt source/greet.py READ; ls; git status --short | wc -l
        echo more >> kept.txt; echo '# more' >> source/greet.py; echo more >> READ";
    let seen = env.aegis(&["resume", "--", "bash", "-euc", script]).ok();
    for part in ["keep\n", "def greet(name):", "# project"] {
        assert!(
            seen.stdout.contains(part),
            "`{part}` is gone: {}",
            seen.output()
        );
    }
    env.land();
    assert_eq!(env.read("kept.txt"), "keep\nmore\n");
    assert_eq!(env.read("READ"), "# project\n\none\ntwo\nthree\nmore\n");
    assert!(env.read("source/greet.py").starts_with("def greet(name):"));
    for old in ["keep.txt", "src", "README.md"] {
        assert!(!env.project().join(old).exists(), "`{old}` is back");
    }
}

#[test]
fn landing_needs_an_answer_from_a_person() {
    let env = TestEnv::with_repository();
    let _ = env.run("echo one > one.txt").ok();
    let refused = env.aegis(&["land"]).fails();
    assert!(refused.stderr.contains("--yes"), "{}", refused.output());
    assert!(!env.project().join("one.txt").exists());
}

#[test]
fn edits_of_both_sides_on_different_lines_are_merged() {
    let env = TestEnv::with_repository();
    let _ = env
        .run("sed -i 's/^three$/three by the agent/' README.md")
        .ok();
    let _ = env
        .sh("sed -i 's/^# project$/# project by the host/' README.md")
        .ok();
    env.land();
    assert_eq!(
        env.read("README.md"),
        "# project by the host\n\none\ntwo\nthree by the agent\n"
    );
}

#[test]
fn edits_of_both_sides_on_one_line_are_a_conflict_and_the_hosts_stays() {
    let env = TestEnv::with_repository();
    let _ = env
        .run("sed -i 's/^two$/two by the agent/' README.md; echo fine > fine.txt")
        .ok();
    let _ = env.sh("sed -i 's/^two$/two by the host/' README.md").ok();
    let landing = env.aegis(&["land", "--yes"]);
    let host = env.read("README.md");
    assert!(
        host.contains("two by the host") && !host.contains("agent"),
        "{host}"
    );
    assert!(!host.contains("<<<<") && !host.contains("===="), "{host}");
    assert!(
        landing.output().contains("README.md"),
        "{}",
        landing.output()
    );
}

#[test]
fn a_file_that_the_host_removed_meanwhile_is_not_brought_back_unseen() {
    let env = TestEnv::with_repository();
    let _ = env.run("echo more >> keep.txt").ok();
    let _ = env.sh("rm keep.txt").ok();
    let landing = env.aegis(&["land", "--yes"]);
    assert!(
        !env.project().join("keep.txt").exists(),
        "{}",
        landing.output()
    );
    assert!(
        landing.output().contains("keep.txt"),
        "{}",
        landing.output()
    );
}

#[test]
fn a_landing_can_be_taken_back() {
    let env = TestEnv::with_repository();
    let _ = env
        .sh("ln -s keep.txt link; mkdir d; echo in > d/in; chmod 750 src/greet.py")
        .ok();
    // Objects that nothing refers to are no history; git removes them in its own time.
    let state = || tree::read(env.project(), &[".git/objects"]);
    let before = state();
    let work = "echo more >> README.md; rm keep.txt; mv src source; chmod 755 source/greet.py
        ln -sfn README.md link; rm -r d; echo new > new.txt; mkdir -p e/f; echo x > e/f/x
        git add -A; git commit -q -m work";
    let _ = env.run(work).ok();
    env.land();
    assert_ne!(state(), before);
    let _ = env.aegis(&["undo", "--yes"]).ok();
    tree::assert_same(&state(), &before);
    let _ = env
        .sh("git fsck --strict && test \"$(git log --format=%s)\" = first")
        .ok();
}

#[test]
fn links_out_of_the_project_and_special_bits_do_not_land_unseen() {
    let env = TestEnv::with_repository();
    let work =
        "cp /bin/true tool; chmod 6755 tool; ln -s /etc/passwd outside; ln -s ../../.. climbs
        mkdir .GIT && echo x > .GIT/config || true; echo x > $'tab\\there'
        printf x > $'back\\u202ewards'; echo x > KEEP.txt; true";
    let _ = env.run(work).ok();
    let landing = env.aegis(&["land", "--yes"]);
    let tool = env.project().join("tool");
    let special = tool.exists() && tool.metadata().unwrap().permissions().mode() & 0o6000 != 0;
    assert!(!special, "{}", landing.output());
    for name in [
        "outside",
        "climbs",
        ".GIT",
        "tab\there",
        "back\u{202e}wards",
        "KEEP.txt",
    ] {
        let landed = env.project().join(name).symlink_metadata().is_ok();
        assert!(!landed, "`{name}` landed: {}", landing.output());
    }
}

#[test]
fn a_landing_over_a_directory_that_became_a_link_stays_inside() {
    let env = TestEnv::with_repository();
    let _ = env
        .run("echo x >> src/greet.py; echo new > src/new.py")
        .ok();
    let _ = env
        .sh("mkdir ../elsewhere; cp src/greet.py ../elsewhere/; rm -r src; ln -s ../elsewhere src")
        .ok();
    let landing = env.aegis(&["land", "--yes"]);
    let elsewhere = env.home().join("src/elsewhere");
    assert!(!elsewhere.join("new.py").exists(), "{}", landing.output());
    let text = std::fs::read_to_string(elsewhere.join("greet.py")).unwrap();
    assert!(!text.contains('x'), "{}", landing.output());
}

fn serde_json_is_lines_or_one(text: &str) -> bool {
    serde_json::from_str::<serde_json::Value>(text).is_ok()
        || text
            .lines()
            .all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok())
}
