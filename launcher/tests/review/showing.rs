//! `aegis-os diff`.

use crate::cli::world::{Person, World};

const WORK: &str = "printf 'kept\\nmore\\n' > kept; rm gone; mv folder/file folder/moved
    printf 'a\\033[2J\\r\\342\\200\\256b\\n' > hostile; chmod 700 folder/moved
    ln -s kept link; ln -s /etc/passwd out; printf '\\0\\1' > binary; echo all: > Makefile";

#[test]
fn a_difference_is_shown_with_nothing_raw_in_it() {
    for world in World::all() {
        let before = world.fingerprint();
        world.run(WORK).ok();
        let shown = world.aegis(&["diff"]).ok().stdout;
        for line in [
            "1 will not land:",
            "  refused  out: the link leads out of the project",
            "1 that your own tools run or trust:",
            "  create  Makefile (build-script)",
            "diff --git a/kept b/kept",
            "+more",
            "deleted file mode 100644",
            "rename from folder/file",
            "new mode 100700",
            "+a\\u{1b}[2J\\u{d}\\u{202e}b",
            "+link to kept",
        ] {
            assert!(
                shown.lines().any(|shown| shown == line),
                "`{line}` is missing:\n{shown}"
            );
        }
        assert!(
            shown.contains("+binary or large: 2 bytes, SHA-256 "),
            "{shown}"
        );
        assert!(!shown.contains(['\x1b', '\r', '\u{202e}']), "{shown:?}");
        assert_eq!(world.fingerprint(), before);
    }
}

#[test]
fn counts_and_data_are_for_the_asking() {
    let world = World::of(Person::Myself);
    world.run(WORK).ok();
    let counts = world.aegis(&["diff", "--stat"]).ok().stdout;
    assert!(counts.contains("    +1     -0  modify  kept"), "{counts}");
    assert!(counts.contains("binary  create  binary"), "{counts}");
    let data = world.aegis(&["diff", "--json", "kept", "out"]).ok().stdout;
    let objects: Vec<serde_json::Value> = data
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(objects.len(), 2, "{data}");
    assert_eq!(objects[0]["path"], "kept");
    assert_eq!(objects[0]["added"], 1);
    assert_eq!(objects[1]["left"], "refused");
}

#[test]
fn a_session_without_changes_says_so() {
    let world = World::of(Person::Myself);
    world.run("true").ok();
    let ended = world.aegis(&["diff"]).ok();
    assert!(ended.stdout.is_empty());
    assert!(ended.stderr.contains("changed nothing"), "{}", ended.stderr);
    assert!(
        world
            .aegis(&["land", "--yes"])
            .ok()
            .stderr
            .contains("nothing to land")
    );
    world
        .aegis(&["undo", "--yes"])
        .refused(&["no landing that could be undone"]);
}

#[test]
fn names_outside_the_project_are_refused() {
    let world = World::of(Person::Myself);
    world.run(WORK).ok();
    world
        .aegis(&["diff", "../elsewhere"])
        .refused(&["is not in the project"]);
}
