//! The life of sessions: list, status, resume, discard, several at once, crashes.

use std::fs;

use crate::cli::world::{Person, World};

const WAITS: &str = "echo one > mine; touch ~/up; sleep 1000";

#[test]
fn two_sessions_of_one_project_do_not_see_each_other() {
    let world = World::of(Person::Ordinary);
    let mut first = world.start(&["run", "--", "sh", "-c", WAITS]);
    let one = world.only_session();
    let seen = world.run("ls; echo two > mine; cat mine").ok();
    assert!(!seen.stdout.contains("mine\n"), "{}", seen.stdout);
    assert!(seen.stdout.ends_with("two\n"), "{}", seen.stdout);
    world.cut(&mut first);
    let ids: Vec<_> = world.sessions().iter().map(|path| name(path)).collect();
    let two = ids.iter().find(|id| **id != one).unwrap();
    for (id, content) in [(&one, "one\n"), (two, "two\n")] {
        let seen = world.aegis(&["resume", id, "--", "cat", "mine"]).ok();
        assert_eq!(seen.stdout, content);
    }
}

#[test]
fn what_is_still_to_land_is_listed_and_pointed_out() {
    let world = World::of(Person::Ordinary);
    world.run("echo one > one").ok();
    let first = world.only_session();
    let listed = world.aegis(&["sessions"]).ok().stdout;
    assert!(listed.contains("1 to land"), "{listed}");
    world.run("echo two > two").ok();
    let quiet = world.aegis(&["diff", "--stat"]).ok();
    assert!(!quiet.stderr.contains(&first), "{}", quiet.stderr);
    world.aegis(&["land", "--yes"]).ok();
    let listed = world.aegis(&["sessions"]).ok().stdout;
    assert!(listed.contains("  landed  "), "{listed}");
    let status = world.aegis(&["status"]).ok().stdout;
    for line in ["changed  nothing\n", "landed   1 name, "] {
        assert!(status.contains(line), "{status}");
    }
    let told = world.aegis(&["diff"]).ok().stderr;
    assert!(
        told.contains(&format!("`aegis-os diff --session {first}`")),
        "{told}"
    );
    let json = world.aegis(&["sessions", "--json"]).ok().stdout;
    let newest: serde_json::Value = serde_json::from_str(json.lines().next().unwrap()).unwrap();
    assert_eq!(newest["to_land"], 0);
    world.aegis(&["undo", "--yes"]).ok();
    let status = world.aegis(&["status"]).ok().stdout;
    assert!(status.contains("1 created: two"), "{status}");
    assert!(!status.contains("landed"), "{status}");
}

#[test]
fn a_killed_session_is_interrupted_and_goes_on() {
    for world in World::all() {
        let mut live = world.start(&["run", "--", "sh", "-c", WAITS]);
        world.aegis(&["discard", "--yes"]).refused(&["is in use"]);
        world
            .aegis(&["resume", "--", "true"])
            .refused(&["is in use by process"]);
        world.cut(&mut live);
        assert!(
            world
                .aegis(&["sessions"])
                .ok()
                .stdout
                .contains("interrupted")
        );
        let seen = world.aegis(&["resume", "--", "sh", "-c", "cat mine; exit 3"]);
        assert_eq!(
            (seen.status, seen.stdout.as_str()),
            (3, "one\n"),
            "{}",
            seen.stderr
        );
        assert!(world.aegis(&["sessions"]).ok().stdout.contains("ended (3)"));
    }
}

#[test]
fn resume_repeats_the_last_command_in_the_same_directory() {
    let world = World::of(Person::Ordinary);
    world.run("echo line >> lines; wc -l < lines").ok();
    let again = world.aegis(&["resume"]).ok();
    assert_eq!(again.stdout.trim(), "2");
    let id = world.only_session();
    let failed = world.aegis(&["resume", &id, "--", "no-such-command"]);
    assert_eq!(failed.status, 127);
    let status = world.aegis(&["status", &id, "--json"]).ok().stdout;
    let status: serde_json::Value = serde_json::from_str(&status).unwrap();
    assert_eq!(
        (&status["activity"], &status["status"]),
        (&"ended".into(), &0.into())
    );
    assert_eq!(status["changed"]["created"], 1);
    // What is missing depends on the kernel; that it is said does not.
    assert!(status["enforced"]["missing"].is_array());
}

#[test]
fn a_session_is_named_by_the_start_of_its_id() {
    let world = World::of(Person::Ordinary);
    world.run("true").ok();
    let id = world.only_session();
    assert!(
        world
            .aegis(&["status", &id[..18]])
            .ok()
            .stdout
            .contains(&id)
    );
    world
        .aegis(&["status", "nothing"])
        .refused(&["no session has an id", "`nothing`"]);
    world.run("true").ok();
    world
        .aegis(&["status", &id[..8]])
        .refused(&["several ids", &id]);
    let elsewhere = crate::cli::world::Ended::of(
        world
            .command(&["status"])
            .current_dir(world.at("home"))
            .output()
            .unwrap(),
    );
    elsewhere.refused(&["there is no session for"]);
}

#[test]
fn discard_asks_and_removes_everything_and_follows_nothing() {
    for world in World::all() {
        let script = "mkdir -p ~/a/b/c && ln -s \"$PWD\" ~/a/link && chmod 0 ~/a/b; echo x > x";
        world.run(script).ok();
        world.aegis(&["discard"]).refused(&["--yes"]);
        assert_eq!(world.sessions().len(), 1);
        world.aegis(&["discard", "--yes"]).ok();
        assert!(world.sessions().is_empty());
        assert_eq!(
            fs::read_to_string(world.project().join("kept")).unwrap(),
            "kept\n"
        );
    }
}

#[test]
fn a_damaged_session_is_told_and_can_be_thrown_away() {
    let world = World::of(Person::Ordinary);
    world.run("true").ok();
    let id = world.only_session();
    world.write(
        &format!("home/.aegis/sessions/{id}/session.json"),
        "{\"version\": 1}",
    );
    let listed = world.aegis(&["sessions"]).ok();
    assert!(
        listed.stderr.contains(&format!("`aegis-os discard {id}`")),
        "{}",
        listed.stderr
    );
    world.aegis(&["status", &id]).refused(&["is damaged"]);
    world.aegis(&["discard", "--yes", &id]).ok();
    assert!(world.sessions().is_empty());
}

#[test]
fn a_project_that_was_replaced_is_not_that_of_the_session() {
    let world = World::of(Person::Ordinary);
    world.run("echo x > x").ok();
    fs::rename(world.project(), world.at("home/moved")).unwrap();
    fs::create_dir(world.project()).unwrap();
    world.own(&world.project());
    world
        .aegis(&["resume", "--", "true"])
        .refused(&["not the directory"]);
}

#[test]
fn the_list_is_data_on_standard_output() {
    let world = World::of(Person::Ordinary);
    let empty = world.aegis(&["sessions"]).ok();
    assert_eq!(empty.stdout, "");
    assert!(empty.stderr.contains("no sessions"));
    world.aegis(&["run", "--name", "a name", "--", "false"]);
    let line = world.aegis(&["sessions", "--json"]).ok().stdout;
    let session: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!(session["id"], world.only_session());
    assert_eq!(
        (&session["agent"], &session["status"]),
        (&"a name".into(), &1.into())
    );
    assert_eq!(session["project"], world.project().to_str().unwrap());
}

fn name(path: &std::path::Path) -> String {
    path.file_name().unwrap().to_str().unwrap().to_owned()
}

#[test]
fn what_a_killed_start_or_removal_left_is_swept() {
    let world = World::of(Person::Ordinary);
    world.run("true").ok();
    for left in [
        ".draft-20200101-000000-abcd",
        ".doomed-20200101-000000-abcd",
    ] {
        let path = world.at("home/.aegis/sessions").join(left);
        fs::create_dir(&path).unwrap();
        for name in ["lock", "file"] {
            fs::write(path.join(name), "").unwrap();
            world.own(&path.join(name));
        }
        let folder = fs::File::open(&path).unwrap();
        folder
            .set_modified(std::time::SystemTime::UNIX_EPOCH)
            .unwrap();
        world.own(&path);
    }
    let listed = world.aegis(&["sessions"]).ok();
    assert!(!listed.stderr.contains("damaged"), "{}", listed.stderr);
    world.run("true").ok();
    assert_eq!(world.sessions().len(), 2, "{:?}", world.sessions());
}
