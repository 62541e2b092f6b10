//! `aegis-os land` and `aegis-os undo`.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::cli::world::{Person, World};

const WORK: &str = "printf 'kept\\nmore\\n' > kept; rm gone; mkdir -p new/deep
    mv folder/file new/deep/moved; chmod 700 kept; ln -s kept link; echo x > new/file";

fn read(world: &World, name: &str) -> String {
    fs::read_to_string(world.project().join(name)).unwrap()
}

/// Names, modes and contents.
fn tree(root: &Path) -> Vec<(String, u32, Vec<u8>)> {
    let mut found = Vec::new();
    let mut waiting = vec![root.to_owned()];
    while let Some(path) = waiting.pop() {
        let status = fs::symlink_metadata(&path).unwrap();
        let name = path.strip_prefix(root).unwrap().display().to_string();
        let content = match &path {
            path if status.is_file() => fs::read(path).unwrap(),
            path if status.is_symlink() => fs::read_link(path)
                .unwrap()
                .into_os_string()
                .into_encoded_bytes(),
            _ => Vec::new(),
        };
        if status.is_dir() {
            waiting.extend(
                fs::read_dir(&path)
                    .unwrap()
                    .map(|entry| entry.unwrap().path()),
            );
        }
        found.push((name, status.mode(), content));
    }
    found.sort();
    found
}

#[test]
fn a_session_lands_and_is_taken_back() {
    for world in World::all() {
        let before = tree(&world.project());
        world.run(WORK).ok();
        let ended = world.aegis(&["land", "--yes"]).ok();
        assert!(ended.stderr.contains("aegis-os undo"), "{}", ended.stderr);
        assert_eq!(read(&world, "kept"), "kept\nmore\n");
        assert_eq!(read(&world, "new/deep/moved"), "file\n");
        assert!(!world.project().join("gone").exists());
        let owner = fs::metadata(world.project()).unwrap().uid();
        assert_eq!(
            fs::metadata(world.project().join("kept")).unwrap().uid(),
            owner
        );
        // Nothing is left over beside what was to land.
        let names: Vec<_> = tree(&world.project())
            .into_iter()
            .map(|(name, ..)| name)
            .collect();
        assert_eq!(
            names,
            [
                "",
                "folder",
                "kept",
                "link",
                "new",
                "new/deep",
                "new/deep/moved",
                "new/file"
            ]
        );
        world.aegis(&["undo", "--yes"]).ok();
        assert_eq!(tree(&world.project()), before);
    }
}

#[test]
fn a_session_goes_on_after_its_landing() {
    for world in World::all() {
        let id = |world: &World| world.only_session();
        world.run(WORK).ok();
        world.aegis(&["land", "--yes"]).ok();
        let script =
            "cat new/deep/moved kept && echo again >> new/deep/moved && echo 3 >> new/file";
        let ended = world
            .aegis(&["resume", &id(&world), "--", "sh", "-c", script])
            .ok();
        assert_eq!(ended.stdout, "file\nkept\nmore\n");
        let shown = world.aegis(&["diff", "--stat"]).ok().stdout;
        assert!(shown.contains("2 names, +2 -0 lines"), "{shown}");
        world.aegis(&["land", "--yes"]).ok();
        assert_eq!(read(&world, "new/deep/moved"), "file\nagain\n");
        assert_eq!(read(&world, "new/file"), "x\n3\n");
    }
}

#[test]
fn what_the_person_changed_is_merged_or_left() {
    let world = World::of(Person::Ordinary);
    let lines = "1\n2\n3\n4\n5\n6\n";
    for name in ["written", "replaced", "again", "both"] {
        world.write(&format!("home/project/{name}"), lines);
    }
    // Written in place, replaced by a rename, removed and made again: the ways of editors.
    let edit = "s/6/six/";
    let script = format!(
        "sed '{edit}' both > t; cat t > both; cat t > written; cp t u; mv u replaced
         rm again; cp t again; rm t"
    );
    world.run(&script).ok();
    for name in ["written", "replaced", "again"] {
        world.write(&format!("home/project/{name}"), &lines.replace('1', "one"));
    }
    world.write("home/project/both", &lines.replace('6', "SIX"));
    let ended = world.aegis(&["land", "--yes"]);
    assert_eq!(ended.status, 1, "{ended:#?}");
    for name in ["written", "replaced", "again"] {
        assert_eq!(
            read(&world, name),
            "one\n2\n3\n4\n5\nsix\n",
            "{name}: {ended:#?}"
        );
    }
    assert_eq!(read(&world, "both"), lines.replace('6', "SIX"));
    assert!(
        ended
            .stderr
            .contains("conflict both: both sides changed the same lines"),
        "{ended:#?}"
    );
}

#[test]
fn only_what_is_named_lands() {
    let world = World::of(Person::Myself);
    world.run(WORK).ok();
    world.aegis(&["land", "--yes", "new/file"]).ok();
    assert!(world.project().join("new/file").exists());
    assert!(world.project().join("gone").exists());
    world.aegis(&["land", "--yes"]).ok();
    assert!(!world.project().join("gone").exists());
}

#[test]
fn a_name_without_a_change_is_no_success() {
    for world in World::all() {
        world.run(WORK).ok();
        for arguments in [&["land", "--yes", "absent"][..], &["land", "absent"]] {
            let ended = world.aegis(arguments);
            assert_eq!(ended.status, 1, "{}", ended.stderr);
            assert!(ended.stderr.contains("diff --stat"), "{}", ended.stderr);
        }
        assert_eq!(read(&world, "kept"), "kept\n");
        world.aegis(&["land", "--yes"]).ok();
        world.aegis(&["land", "--yes"]).ok();
    }
}

#[test]
fn a_running_session_does_not_land() {
    let world = World::of(Person::Ordinary);
    let mut child = world.start(&[
        "run",
        "--",
        "sh",
        "-c",
        "echo x > new; touch ~/up; sleep 60",
    ]);
    world
        .aegis(&["land", "--yes"])
        .refused(&["is in use by process"]);
    assert!(world.aegis(&["diff"]).ok().stdout.contains("b/new"));
    world.cut(&mut child);
}

#[test]
fn a_folder_that_may_not_be_written_is_left_alone() {
    let world = World::of(Person::Ordinary);
    if world.switched_to().is_none() {
        return;
    }
    world.run("echo x > folder/new; echo y > other").ok();
    // The person loses the right to the folder while the session is at rest.
    std::os::unix::fs::lchown(world.project().join("folder"), Some(0), Some(0)).unwrap();
    let ended = world.aegis(&["land", "--yes"]);
    assert_eq!(ended.status, 1, "{ended:#?}");
    assert!(
        ended.stderr.contains("folder/new: Permission denied"),
        "{ended:#?}"
    );
    assert_eq!(read(&world, "other"), "y\n");
    assert_eq!(
        fs::read_dir(world.project().join("folder"))
            .unwrap()
            .count(),
        1
    );
}

/// A landing that is killed at any moment has happened or has not: what `undo` leaves is what was
/// there before, in either case.
#[test]
fn a_killed_landing_is_whole() {
    let world = World::of(Person::Ordinary);
    let before = tree(&world.project());
    world
        .run("for n in $(seq 60); do echo $n > file-$n; done; echo more >> kept; rm gone")
        .ok();
    let mut delay = std::time::Duration::ZERO;
    let mut landed = 0;
    // Later and later, until it has happened twice before the blow.
    while landed < 2 {
        let mut landing = world.command(&["land", "--yes"]);
        let mut landing = landing.stderr(std::process::Stdio::null()).spawn().unwrap();
        std::thread::sleep(delay);
        landing.kill().unwrap();
        landing.wait().unwrap();
        let undone = world.aegis(&["undo", "--yes"]);
        landed += usize::from(undone.status == 0);
        assert_eq!(tree(&world.project()), before, "{delay:?}: {undone:#?}");
        delay += std::time::Duration::from_millis(7) + delay / 16;
    }
    world.aegis(&["land", "--yes"]).ok();
    assert!(world.project().join("file-60").exists());
}
