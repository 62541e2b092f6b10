//! Snapshots of sessions, and going back to them.

use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command};

use serde_json::Value;

use super::world::{Ended, Person, World, eventually};

/// Waits in a script for a file in the private home.
fn until(name: &str) -> String {
    format!("until [ -e ~/{name} ]; do sleep 0.02; done")
}

/// A session that ends with the test, however that ends.
struct Running(Child);

impl Running {
    fn end(mut self) -> Option<i32> {
        self.0.wait().unwrap().code()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ended_already = self.0.kill();
        let _reaped = self.0.wait();
    }
}

fn lines(ended: &Ended) -> Vec<Value> {
    let lines = ended.stdout.lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn snapshots(world: &World) -> Vec<Value> {
    lines(&world.aegis(&["snapshots", "--json"]).ok())
}

fn causes(world: &World) -> Vec<String> {
    let all = snapshots(world);
    all.iter()
        .map(|one| one["cause"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn a_running_session_goes_back_and_forth() {
    for world in World::all() {
        let script = format!(
            "exec 4<kept; echo first > kept; touch ~/up; {}; echo second > kept; echo x > made; \
             mv folder moved; touch ~/two; {}; cat kept - <&4 > ~/seen; ls > ~/names; touch ~/three; {}",
            until("go-two"),
            until("go-three"),
            until("end"),
        );
        let session = Running(world.start(&["run", "--", "sh", "-c", &script]));
        let home = world.sessions()[0].join("home");
        let go = |name: &str| fs::write(home.join(name), "").unwrap();
        let entry = world.aegis(&["snapshot", "one"]).ok().stdout;
        go("go-two");
        eventually(|| home.join("two").exists());
        let since = world
            .aegis(&["diff", "--since", "one", "--stat"])
            .ok()
            .stdout;
        for line in ["modify  kept", "create  made", "folder -> moved"] {
            assert!(since.contains(line), "`{line}` is missing: {since}");
        }
        assert_eq!(world.aegis(&["cat", "kept@one"]).ok().stdout, "first\n");
        assert_eq!(
            world
                .aegis(&["cat", &format!("kept@{}", entry.trim())])
                .ok()
                .stdout,
            "first\n"
        );
        assert_eq!(world.aegis(&["cat", "gone@one"]).ok().stdout, "gone\n");
        let _ = world
            .aegis(&["cat", "made@one"])
            .refused_plainly(&["no such name"]);
        let back = world.aegis(&["rewind", "one"]).ok().stderr;
        go("go-three");
        eventually(|| home.join("three").exists());
        assert_eq!(
            fs::read_to_string(home.join("seen")).unwrap(),
            "first\nfirst\n"
        );
        assert_eq!(
            fs::read_to_string(home.join("names")).unwrap(),
            "folder\ngone\nkept\n"
        );
        let there = back
            .split('`')
            .nth(3)
            .unwrap()
            .split(' ')
            .nth(2)
            .unwrap()
            .to_owned();
        let _ = world.aegis(&["rewind", &there]).ok();
        assert_eq!(
            world.aegis(&["cat", &format!("made@{there}")]).ok().stdout,
            "x\n"
        );
        go("end");
        assert_eq!(session.end(), Some(0));
        let stat = world.aegis(&["diff", "--stat"]).ok().stdout;
        assert!(
            stat.contains("create  made") && stat.contains("modify  kept"),
            "{stat}"
        );
        assert!(!world.sessions()[0].join("control").exists());
    }
}

#[test]
fn a_session_that_has_ended_goes_back_and_lands_again() {
    for world in World::all() {
        let _ = world
            .run("echo one > kept; echo new > made; rm gone; mv folder/file folder/moved")
            .ok();
        let _ = world.aegis(&["snapshot", "one"]).ok();
        let _ = world.aegis(&["land", "--yes"]).ok();
        let project = |name: &str| fs::read_to_string(world.project().join(name)).ok();
        assert_eq!(project("kept").as_deref(), Some("one\n"));
        let id = world.only_session();
        let _ = world
            .aegis(&[
                "resume",
                &id,
                "--",
                "sh",
                "-c",
                "echo two > kept; echo more > further",
            ])
            .ok();
        let _ = world.aegis(&["land", "--yes"]).ok();
        assert_eq!(project("kept").as_deref(), Some("two\n"));
        // What landed stays; what the session has again differs from it.
        let back = world.aegis(&["rewind", "one"]).ok();
        assert!(back.stderr.contains("2 landed since"), "{}", back.stderr);
        assert_eq!(project("kept").as_deref(), Some("two\n"));
        let stat = world.aegis(&["diff", "--stat"]).ok().stdout;
        assert!(stat.contains("modify  kept"), "{stat}");
        let _ = world.aegis(&["land", "--yes"]).ok();
        assert_eq!(project("kept").as_deref(), Some("one\n"));
        assert_eq!(project("made").as_deref(), Some("new\n"));
        assert_eq!(project("folder/moved").as_deref(), Some("file\n"));
        assert_eq!((project("gone"), project("folder/file")), (None, None));
        let taken = causes(&world);
        assert!(
            taken.contains(&"before-landing".to_owned()) || taken.contains(&"run-ended".to_owned()),
            "{taken:?}"
        );
    }
}

#[test]
fn what_has_landed_under_another_name_is_read_there() {
    let world = World::of(Person::Myself);
    let _ = world.run("mv folder/file folder/moved").ok();
    let _ = world.aegis(&["land", "--yes"]).ok();
    let _ = world.aegis(&["snapshot", "one"]).ok();
    fs::write(world.project().join("folder/file"), "another file\n").unwrap();
    let id = world.only_session();
    let more = "echo more >> folder/moved";
    let _ = world.aegis(&["resume", &id, "--", "sh", "-c", more]).ok();
    let since = world.aegis(&["diff", "--since", "one"]).ok().stdout;
    assert!(since.contains("\n file\n+more\n"), "{since}");
}

#[test]
fn snapshots_are_taken_when_something_has_changed() {
    let world = World::of(Person::Myself);
    let _ = world.run("true").ok();
    assert_eq!(causes(&world), ["run-started"]);
    let id = world.only_session();
    let _ = world
        .aegis(&["resume", &id, "--", "sh", "-c", "echo x > made"])
        .ok();
    let since = &snapshots(&world)[0]["since"];
    assert_eq!(since["created"], 1, "{since}");
    assert_eq!(causes(&world), ["run-started", "run-ended"]);
    let _ = world.aegis(&["land", "--yes"]).ok();
    assert_eq!(causes(&world), ["run-started", "run-ended"]);
    let _ = world.aegis(&["rewind", "0"]).ok();
    let _ = world.aegis(&["land", "--yes"]);
    assert_eq!(
        causes(&world),
        ["run-started", "run-ended", "before-rewind"]
    );
}

#[test]
fn a_commit_of_the_agent_is_put_aside() {
    let world = World::of(Person::Myself);
    let git = "git -c user.name=n -c user.email=e@example.org";
    let init = world
        .program(Path::new("/bin/sh"))
        .args([
            "-c",
            &format!("git init -q . && git add . && {git} commit -qm first"),
        ])
        .status();
    assert!(init.unwrap().success());
    let script = format!(
        "echo more >> kept; {git} commit -qam second; touch ~/up; {}",
        until("end")
    );
    let session = Running(world.start(&["run", "--", "sh", "-c", &script]));
    eventually(|| causes(&world).contains(&"commit".to_owned()));
    fs::write(world.sessions()[0].join("home/end"), "").unwrap();
    assert_eq!(session.end(), Some(0));
}

#[test]
fn names_that_mean_nothing_or_something_else_are_refused() {
    let world = World::of(Person::Myself);
    let _ = world.run("echo x > made").ok();
    let _ = world.aegis(&["snapshot", "one"]).ok();
    for bad in ["12", "a/b", "a@b", ".one", ""] {
        let _ = world
            .aegis(&["snapshot", bad])
            .refused(&["can not be called"]);
    }
    let taken = world.aegis(&["snapshot", "one"]);
    assert!(
        taken.status == 125 && taken.stderr.contains("another snapshot"),
        "{taken:#?}"
    );
    for bad in ["two", "99999999999999999999999"] {
        let _ = world.aegis(&["rewind", bad]).refused(&["is no snapshot"]);
        let _ = world
            .aegis(&["diff", "--since", bad])
            .refused(&["is no snapshot"]);
    }
    assert_eq!(world.aegis(&["rewind", "4000"]).status, 125);
    let _ = world.aegis(&["cat", "made"]).refused(&["no `@`"]);
}

#[test]
fn what_is_not_kept_is_said_before_it_is_done() {
    let world = World::of(Person::Myself);
    let _ = world
        .run("echo one > made; echo x > short; rm short; echo two >> made")
        .ok();
    let audit = lines(&world.aegis(&["audit", "--json"]).ok());
    let gone = audit
        .iter()
        .find(|entry| entry["details"]["op"] == "remove")
        .unwrap();
    let before = (gone["seq"].as_u64().unwrap() - 1).to_string();
    let refused = world
        .aegis(&["rewind", &before])
        .refused(&["2 files would not be"]);
    assert!(
        refused.stderr.contains("short: its content is not kept"),
        "{}",
        refused.stderr
    );
    let _ = world.aegis(&["rewind", &before, "--yes"]).ok();
    let stat = world.aegis(&["diff", "--stat"]).ok().stdout;
    assert!(stat.contains("made") && !stat.contains("short"), "{stat}");
}

#[test]
fn nobody_inside_reaches_the_socket() {
    for world in World::all() {
        let script = format!(
            "find / -name control -type s > ~/found 2>/dev/null; touch ~/up; {}",
            until("end")
        );
        let session = Running(world.start(&["run", "--", "sh", "-c", &script]));
        let socket = world.sessions()[0].join("control");
        let mode = fs::symlink_metadata(&socket).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        // A descriptor of it that got inside would not help: the pid namespace is another.
        let ask = format!(
            "import socket; s=socket.socket(socket.AF_UNIX); s.connect({:?}); \
             s.sendall(b'{{\"version\":1,\"says\":{{\"snapshot\":{{\"name\":\"evil\"}}}}}}\\n'); print(s.recv(4096).decode())",
            socket.to_str().unwrap()
        );
        let inside = world
            .program(Path::new("unshare"))
            .args([
                "--user",
                "--map-current-user",
                "--pid",
                "--fork",
                "python3",
                "-c",
                &ask,
            ])
            .output();
        let inside = Ended::of(inside.unwrap()).ok();
        assert!(
            inside.stdout.contains("inside a sandbox"),
            "{}",
            inside.stdout
        );
        let outside = world
            .program(Path::new("python3"))
            .args(["-c", &ask])
            .output();
        let outside = Ended::of(outside.unwrap()).ok().stdout;
        assert!(outside.contains("done"), "{outside}");
        fs::write(world.sessions()[0].join("home/end"), "").unwrap();
        let found = world.sessions()[0].join("home/found");
        assert_eq!(fs::read_to_string(found).unwrap(), "");
        assert_eq!(session.end(), Some(0));
    }
}

#[test]
fn what_a_session_takes_is_accounted_for() {
    let world = World::of(Person::Myself);
    let script = "head -c 300000 /dev/zero | tr '\\0' x > large; echo one > kept";
    let _ = world.run(script).ok();
    let _ = world.aegis(&["snapshot", "one"]).ok();
    let id = world.only_session();
    let _ = world
        .aegis(&["resume", &id, "--", "sh", "-c", "rm large; echo two > kept"])
        .ok();
    let account = &lines(&world.aegis(&["du", "--json"]).ok())[0];
    let bytes = |name: &str| account[name].as_u64().unwrap();
    assert!(bytes("snapshots") >= 300_000, "{account}");
    assert!((1..100_000).contains(&bytes("files")), "{account}");
    let parts = [
        "files",
        "snapshots",
        "unnamed",
        "bases",
        "journal",
        "checkpoints",
        "stage",
        "landings",
        "home",
        "reserve",
        "rest",
    ];
    assert_eq!(
        parts.iter().map(|part| bytes(part)).sum::<u64>(),
        bytes("all")
    );
    let named = account["by_snapshot"].as_array().unwrap();
    assert!(named.iter().any(|one| one["name"] == "one"), "{account}");
    let output = Command::new("du")
        .args(["-s", "-B1"])
        .arg(&world.sessions()[0])
        .output();
    let all: u64 = String::from_utf8(output.unwrap().stdout)
        .unwrap()
        .split('\t')
        .next()
        .unwrap()
        .parse()
        .unwrap();
    assert_eq!(bytes("all"), all);
    let text = world.aegis(&["du"]).ok().stdout;
    assert!(text.contains("only in snapshots, in one"), "{text}");
}

#[test]
fn a_commit_in_a_large_repository_takes_little() {
    let world = World::of(Person::Ordinary);
    let git = "git -c user.name=n -c user.email=e@example.org -c gc.autoDetach=false";
    let script = format!(
        "for i in 1 2 3 4 5 6 7 8; do head -c 2000000 /dev/urandom > folder/$i; done
         git init -q . && git add . && {git} commit -qm first && {git} gc -q"
    );
    let made = world
        .program(Path::new("/bin/sh"))
        .args(["-c", &script])
        .status();
    assert!(made.unwrap().success());
    let taken = || {
        let account = &lines(&world.aegis(&["du", "--json"]).ok())[0];
        account["all"].as_u64().unwrap()
    };
    let _ = world
        .run("git log; ls -lR > /dev/null; cat folder/* > /dev/null")
        .ok();
    let reading = taken();
    assert!(reading < 256 << 10, "reading took {reading} bytes");
    let id = world.only_session();
    let script = format!("echo more >> kept; git add kept; {git} commit -qm second; git status");
    let _ = world
        .aegis(&["resume", &id, "--", "sh", "-c", &script])
        .ok();
    let all = taken();
    println!("reading took {reading} bytes, with a commit {all}");
    assert!(all < 1 << 20, "{all} bytes");
}

#[test]
fn a_peer_that_never_ends_holds_up_no_end() {
    for world in World::all() {
        let script = format!("touch ~/up; {}", until("end"));
        let session = Running(world.start(&["run", "--", "sh", "-c", &script]));
        let socket = world.sessions()[0].join("control");
        let ask = format!(
            "import socket, time; s=socket.socket(socket.AF_UNIX); s.connect({:?})\n\
             while True: s.sendall(b' '); print('there', flush=True); time.sleep(.02)",
            socket.to_str().unwrap()
        );
        let mut peer = world.program(Path::new("python3"));
        peer.args(["-c", &ask]);
        let piped = std::process::Stdio::piped;
        let mut peer = peer.stdout(piped()).stderr(piped()).spawn().unwrap();
        peer.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        fs::write(world.sessions()[0].join("home/end"), "").unwrap();
        assert_eq!(session.end(), Some(0));
        let peer = Ended::of(peer.wait_with_output().unwrap());
        assert!(peer.stderr.contains("BrokenPipe"), "{}", peer.stderr);
    }
}
