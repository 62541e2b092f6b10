//! How a view ends: by a signal, by somebody else, while it is used, with its server.

use std::fs;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use super::{is_mounted, is_served, mounted, script_of, shell};
use crate::cli::world::{Ended, Person, World, eventually, send};

/// More than any of these ends may take; a hang would last for ever.
const BOUND: Duration = Duration::from_secs(45);

/// A view whose words are heard.
fn heard(world: &World) -> Child {
    let mut command = world.command(&["mount", "."]);
    command.arg(world.at("view"));
    let child = command.stderr(Stdio::piped()).spawn().unwrap();
    eventually(|| is_mounted(world) && is_served(world));
    child
}

fn end_of(mut view: Child) -> Ended {
    let started = Instant::now();
    while view.try_wait().unwrap().is_none() {
        assert!(started.elapsed() < BOUND, "the view does not end");
        std::thread::sleep(Duration::from_millis(20));
    }
    Ended::of(view.wait_with_output().unwrap())
}

/// Programs that write as fast as they can, until they get an error.
struct Writers(Vec<Child>);

impl Writers {
    fn start(world: &World, count: usize) -> Self {
        let script = |number: usize| {
            format!(
                "exec 3> $VIEW/log-{number}; : > $VIEW/up-{number}
                 while echo line >&3 && echo x > $VIEW/file-{number}; do :; done"
            )
        };
        let start = |number| {
            let mut command = script_of(world, &script(number));
            command.stderr(Stdio::null()).spawn().unwrap()
        };
        let writers = Self((0..count).map(start).collect());
        eventually(|| shell(world, "ls $VIEW").stdout.matches("up-").count() == count);
        writers
    }

    /// Each of them ends by itself.
    fn end(mut self) {
        for writer in &mut self.0 {
            let started = Instant::now();
            while writer.try_wait().unwrap().is_none() {
                assert!(started.elapsed() < BOUND, "a writer hangs");
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        self.0.clear();
    }
}

impl Drop for Writers {
    fn drop(&mut self) {
        for writer in &mut self.0 {
            let _ = writer.kill();
            let _ = writer.wait();
        }
    }
}

#[test]
fn every_signal_of_the_system_unmounts_in_order() {
    for world in World::all() {
        for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
            let view = heard(&world);
            shell(&world, "echo new > $VIEW/new").ok();
            send(view.id(), signal);
            let told = end_of(view).ok().stderr;
            assert!(told.contains("unmounted; `aegis-os diff"), "{told}");
            assert!(!is_mounted(&world));
        }
        let listed = world.aegis(&["sessions"]).ok().stdout;
        assert_eq!(listed.matches("ended").count(), 3, "{listed}");
    }
}

#[test]
fn a_view_under_load_ends_all_the_same() {
    for world in World::all() {
        let view = heard(&world);
        let writers = Writers::start(&world, 8);
        send(view.id(), Signal::SIGTERM);
        let told = end_of(view).ok().stderr;
        assert!(told.contains("unmounted"), "{told}");
        assert!(!is_mounted(&world));
        writers.end();
        let listed = world.aegis(&["sessions"]).ok().stdout;
        assert!(listed.contains("ended"), "{listed}");
        // What was written before is there, and is whole.
        world.aegis(&["audit", "--json"]).ok();
        world.aegis(&["land", "--yes"]).ok();
        assert!(fs::metadata(world.project().join("log-0")).unwrap().len() > 0);
    }
}

#[test]
fn somebody_else_may_unmount() {
    for world in World::all() {
        let view = heard(&world);
        // Who is just looking at it, as the server does at its start, is in the way for a moment.
        let script = "echo new > $VIEW/new; until fusermount3 -u $VIEW; do sleep 0.1; done";
        shell(&world, script).ok();
        let told = end_of(view).ok().stderr;
        assert!(told.contains("something else unmounted the view"), "{told}");
        // Twice is refused by the helper and harms nothing; ours says that there is nothing.
        assert_ne!(shell(&world, "fusermount3 -u $VIEW").status, 0);
        let place = world.at("view");
        world.aegis(&["unmount", place.to_str().unwrap()]).ok();
        let status = world.aegis(&["status"]).ok().stdout;
        assert!(status.contains("1 created: new"), "{status}");
    }
}

#[test]
fn a_view_that_is_taken_away_while_it_is_used_ends_with_its_users() {
    for world in World::all() {
        let view = heard(&world);
        let script = "exec 3> $VIEW/new; : > $VIEW/up; read line; echo $line >&3";
        let mut user = script_of(&world, script);
        let mut user = user.stdin(Stdio::piped()).spawn().unwrap();
        eventually(|| shell(&world, "[ -e $VIEW/up ]").status == 0);
        let place = world.at("view");
        let place = place.to_str().unwrap();
        world
            .aegis(&["unmount", place])
            .refused(&["can not be unmounted", "--lazy"]);
        world.aegis(&["unmount", "--lazy", place]).ok();
        assert!(!is_mounted(&world));
        let listed = world.aegis(&["sessions"]).ok().stdout;
        assert!(listed.contains("running"), "{listed}");
        use std::io::Write;
        user.stdin.take().unwrap().write_all(b"late\n").unwrap();
        assert!(user.wait().unwrap().success());
        let told = end_of(view).ok().stderr;
        assert!(
            told.contains("it goes on for the programs that still use it"),
            "{told}"
        );
        world.aegis(&["land", "--yes"]).ok();
        assert_eq!(
            fs::read_to_string(world.project().join("new")).unwrap(),
            "late\n"
        );
    }
}

#[test]
fn a_killed_or_stopped_server_leaves_no_dead_mount() {
    for world in World::all() {
        world.settings("patience = 1\n");
        for (signal, words) in [
            (Signal::SIGKILL, "was killed (SIGKILL)"),
            (Signal::SIGSTOP, "did not answer for 1 s"),
        ] {
            let view = heard(&world);
            shell(&world, "echo new > $VIEW/new").ok();
            let writers = Writers::start(&world, 2);
            send(world.server(), signal);
            end_of(view).refused(&["was cut off", words]);
            assert!(!is_mounted(&world));
            writers.end();
            let id = world.sessions().pop().unwrap();
            let id = id.file_name().unwrap().to_str().unwrap();
            let seen = world.aegis(&["resume", id, "--", "cat", "new"]).ok();
            assert_eq!(seen.stdout, "new\n");
        }
    }
}

/// Where fusermount3 mounted the view of a sandbox, others see the mount and can take it away.
#[test]
fn a_sandbox_goes_on_when_its_mount_is_taken_away_outside() {
    let world = World::of(Person::Ordinary);
    let Some(mut command) = super::without_namespaces(&world) else {
        return;
    };
    let script =
        "echo one > one; touch ~/up; while ! [ -e ~/on ]; do sleep 0.1; done; cat one kept";
    command.args(["run", "--", "sh", "-c", script]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let session = command.spawn().unwrap();
    let is_up = |session: &std::path::PathBuf| session.join("home/up").exists();
    eventually(|| world.sessions().iter().any(is_up));
    let place = world.sessions().remove(0);
    let mount = place.join("mnt");
    let script = format!("fusermount3 -uz {}", mount.display());
    shell(&world, &script).ok();
    fs::write(place.join("home/on"), "").unwrap();
    assert_eq!(end_of(session).ok().stdout, "one\nkept\n");
    let status = world.aegis(&["status"]).ok().stdout;
    assert!(status.contains("1 created: one"), "{status}");
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    assert!(!mounts.contains(place.to_str().unwrap()), "{mounts}");
}

#[test]
fn a_killed_keeper_unmounts_in_order() {
    let world = World::of(Person::Ordinary);
    let mut view = mounted(&world);
    view.kill().unwrap();
    view.wait().unwrap();
    eventually(|| !is_mounted(&world));
    eventually(|| world.aegis(&["sessions"]).ok().stdout.contains("ended"));
}

#[test]
fn a_view_whose_connection_is_cut_says_so() {
    let world = World::of(Person::Myself);
    if !nix::unistd::Uid::effective().is_root() {
        return;
    }
    let view = heard(&world);
    // As root this cuts the connection and takes the mount away, as `umount -f` does.
    let mut force = Command::new("umount");
    assert!(
        force
            .arg("-f")
            .arg(world.at("view"))
            .status()
            .unwrap()
            .success()
    );
    let told = end_of(view);
    assert!(told.stderr.contains("unmounted the view"), "{told:#?}");
    assert!(!is_mounted(&world));
}
