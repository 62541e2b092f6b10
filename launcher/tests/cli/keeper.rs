//! A server that is killed, stopped or cut off: the person gets the terminal and a word back.

use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use nix::sys::signal::Signal;
use rustix::pty::OpenptFlags;
use rustix::termios::{LocalModes, tcgetattr};

use crate::cli::world::{Ended, Person, World, eventually, send};
use crate::sandbox::body::is_running;

/// A session whose command makes a file and then waits; `mark` is how long, and its name in /proc.
fn waiting(world: &World, mark: &str) -> Child {
    let script = format!("echo kept > mine; touch ~/up; sleep {mark}");
    let mut command = world.command(&["run", "--", "sh", "-c", &script]);
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    eventually(|| {
        world
            .sessions()
            .iter()
            .any(|session| session.join("home/up").exists())
    });
    child
}

fn mark(number: u32) -> String {
    format!("{number}{}", std::process::id())
}

fn end_of(child: Child) -> Ended {
    Ended::of(child.wait_with_output().unwrap())
}

fn impatient(world: &World, seconds: u32) {
    world.settings(&format!("patience = {seconds}\n"));
}

#[test]
fn a_killed_server_ends_the_session_with_a_word() {
    for world in World::all() {
        let mark = mark(41);
        let session = waiting(&world, &mark);
        send(world.server(), Signal::SIGKILL);
        let ended = end_of(session).refused(&["was cut off", "was killed (SIGKILL)"]);
        let id = world.only_session();
        assert!(
            ended.stderr.contains(&format!("aegis-os resume {id}")),
            "{}",
            ended.stderr
        );
        assert!(!is_running(&["sleep", &mark]));
        let listed = world.aegis(&["sessions"]).ok().stdout;
        assert!(listed.contains("interrupted"), "{listed}");
        let seen = world.aegis(&["resume", "--", "cat", "mine"]).ok();
        assert_eq!(seen.stdout, "kept\n");
    }
}

#[test]
fn a_stopped_server_is_ended() {
    for world in World::all() {
        impatient(&world, 1);
        let mark = mark(42);
        let session = waiting(&world, &mark);
        send(world.server(), Signal::SIGSTOP);
        end_of(session).refused(&["did not answer for 1 s", "was ended"]);
        assert!(!is_running(&["sleep", &mark]));
        let seen = world.aegis(&["resume", "--", "cat", "mine"]).ok();
        assert_eq!(seen.stdout, "kept\n");
    }
}

#[test]
fn a_session_that_is_stopped_as_a_whole_goes_on() {
    let world = World::of(Person::Ordinary);
    impatient(&world, 1);
    let script = "touch ~/up; while ! [ -e ~/on ]; do sleep 0.1; done; cat kept";
    let mut command = world.command(&["run", "--", "sh", "-c", script]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let session = command.spawn().unwrap();
    eventually(|| {
        world
            .sessions()
            .iter()
            .any(|session| session.join("home/up").exists())
    });
    let (keeper, server) = (session.id(), world.server());
    for signal in [Signal::SIGSTOP, Signal::SIGCONT] {
        send(server, signal);
        send(keeper, signal);
        sleep(Duration::from_millis(2500));
    }
    let home = world.sessions().remove(0).join("home/on");
    fs::write(home, "").unwrap();
    assert_eq!(end_of(session).ok().stdout, "kept\n");
}

#[test]
fn a_killed_keeper_ends_the_session_in_order() {
    let world = World::of(Person::Ordinary);
    let mark = mark(43);
    let mut session = waiting(&world, &mark);
    session.kill().unwrap();
    session.wait().unwrap();
    eventually(|| world.aegis(&["sessions"]).stdout.contains("ended (143)"));
    assert!(!is_running(&["sleep", &mark]));
}

#[test]
fn the_terminal_is_put_back_when_the_server_is_killed() {
    let world = World::of(Person::Ordinary);
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY;
    let master = rustix::pty::openpt(flags).unwrap();
    rustix::pty::unlockpt(&master).unwrap();
    let name = rustix::pty::ptsname(&master, Vec::new()).unwrap();
    let open = fs::OpenOptions::new().read(true).write(true).clone();
    let slave = open.open(name.to_str().unwrap()).unwrap();
    world.own(Path::new(name.to_str().unwrap()));
    let before = tcgetattr(&slave).unwrap();
    let mut command = world.program(Path::new("/usr/bin/setsid"));
    command.args(["-c"]).arg(world.at("aegis-os"));
    command.args(["run", "--", "sh", "-c", "touch ~/up; sleep 1000"]);
    for set in [Command::stdin, Command::stdout, Command::stderr] {
        set(&mut command, slave.try_clone().unwrap());
    }
    let mut session = command.spawn().unwrap();
    drop(command);
    eventually(|| {
        world
            .sessions()
            .iter()
            .any(|session| session.join("home/up").exists())
    });
    let is_raw = || {
        !tcgetattr(&slave)
            .unwrap()
            .local_modes
            .contains(LocalModes::ICANON)
    };
    eventually(is_raw);
    send(world.server(), Signal::SIGKILL);
    assert_eq!(session.wait().unwrap().code(), Some(125));
    let after = tcgetattr(&slave).unwrap();
    assert_eq!(after.local_modes, before.local_modes);
    assert_eq!(after.input_modes, before.input_modes);
    assert_eq!(after.output_modes, before.output_modes);
    drop(slave);
    let mut shown = Vec::new();
    // EIO at the end: nobody has the other side open any more.
    let _end = fs::File::from(master).read_to_end(&mut shown);
    let shown = String::from_utf8_lossy(&shown).into_owned();
    assert!(shown.contains("was killed (SIGKILL)"), "{shown}");
}

#[test]
fn a_connection_that_is_cut_from_outside_ends_the_session() {
    let world = World::of(Person::Ordinary);
    let Some(control) = Control::mount(&world) else {
        return;
    };
    impatient(&world, 6);
    let mark = mark(44);
    let session = waiting(&world, &mark);
    control.abort(&world);
    end_of(session).refused(&["was cut off", "cut the connection"]);
    assert!(!is_running(&["sleep", &mark]));
    let seen = world.aegis(&["resume", "--", "cat", "mine"]).ok();
    assert_eq!(seen.stdout, "kept\n");
}

/// The control file system of FUSE, which only root can mount.
struct Control(std::path::PathBuf);

impl Control {
    fn mount(world: &World) -> Option<Self> {
        let at = world.at("control");
        fs::create_dir(&at).unwrap();
        let none = None::<&str>;
        let flags = nix::mount::MsFlags::empty();
        nix::mount::mount(none, &at, Some("fusectl"), flags, none).ok()?;
        Some(Self(at))
    }

    /// Cuts the view that this process serves.
    fn abort(&self, world: &World) {
        let server = world.server();
        let mounts = fs::read_to_string(format!("/proc/{server}/mountinfo")).unwrap();
        let place = format!(" {}/mnt ", world.sessions()[0].display());
        let view = mounts.lines().find(|line| line.contains(&place)).unwrap();
        let device = view.split(' ').nth(2).unwrap().trim_start_matches("0:");
        fs::write(self.0.join(device).join("abort"), "1").unwrap();
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        let _ = nix::mount::umount(&self.0);
    }
}
