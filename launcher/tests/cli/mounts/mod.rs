//! `aegis-os mount`, and mounts that a killed server leaves behind.

mod ends;
mod forms;
mod trouble;

use std::fs;
use std::process::{Child, Command, Stdio};

use nix::sys::signal::Signal;

use crate::cli::world::{Ended, Person, World, eventually, send};

/// A view of the project on `view`, served by the returned process.
pub fn mounted(world: &World) -> Child {
    let mut command = world.command(&["mount", "."]);
    command.arg(world.at("view")).stderr(Stdio::null());
    let child = command.spawn().unwrap();
    eventually(|| is_mounted(world) && is_served(world));
    child
}

/// Whether a running session has got as far as to be served: its mount is there a little earlier.
fn is_served(world: &World) -> bool {
    world.sessions().into_iter().any(|session| {
        let record = fs::read(session.join("session.json")).unwrap_or_default();
        let record: serde_json::Value = serde_json::from_slice(&record).unwrap_or_default();
        record["state"] == "running" && record["features"].is_object()
    })
}

/// Ends the server in order.
pub fn unmount(world: &World, server: &mut Child) {
    send(server.id(), Signal::SIGTERM);
    assert!(server.wait().unwrap().success());
    assert!(!is_mounted(world));
}

fn is_mounted(world: &World) -> bool {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    mounts.contains(world.at("view").to_str().unwrap())
}

/// A script as the person of the world, who alone may look into a view.
fn shell(world: &World, script: &str) -> Ended {
    Ended::of(script_of(world, script).output().unwrap())
}

fn script_of(world: &World, script: &str) -> Command {
    let mut command = world.program("/bin/sh".as_ref());
    command.args(["-euc", script]).env("VIEW", world.at("view"));
    command
}

/// Both processes of a view are killed, so that nobody takes the mount away.
fn kill_all(world: &World, keeper: &mut Child) {
    let server = world.server();
    send(keeper.id(), Signal::SIGSTOP);
    send(server, Signal::SIGKILL);
    keeper.kill().unwrap();
    keeper.wait().unwrap();
    eventually(|| !std::path::Path::new(&format!("/proc/{server}")).exists());
}

#[test]
fn writes_below_the_mountpoint_stay_in_the_session() {
    for world in World::all() {
        let before = world.fingerprint();
        let mut server = mounted(&world);
        let seen = shell(&world, "cd $VIEW; echo new > new; cat kept").ok();
        assert_eq!(seen.stdout, "kept\n");
        unmount(&world, &mut server);
        assert_eq!(world.fingerprint(), before);
        let status = world.aegis(&["status"]).ok().stdout;
        assert!(status.contains("a mount without a sandbox"), "{status}");
        assert!(status.contains("1 created: new"), "{status}");
    }
}

#[test]
fn a_mount_left_by_a_crash_is_found_and_cleaned() {
    for world in World::all() {
        let mut server = mounted(&world);
        kill_all(&world, &mut server);
        assert!(
            is_mounted(&world),
            "the test needs a mount that is left behind"
        );
        let listed = world.aegis(&["sessions"]).ok().stdout;
        assert!(listed.contains("interrupted"), "{listed}");
        assert!(!is_mounted(&world));
        world.aegis(&["discard", "--yes"]).ok();
    }
}

#[test]
fn a_live_mount_on_the_place_of_a_dead_one_stays() {
    let world = World::of(Person::Myself);
    let mut dead = mounted(&world);
    kill_all(&world, &mut dead);
    world.aegis(&["sessions"]).ok();
    let mut live = mounted(&world);
    world.aegis(&["sessions"]).ok();
    assert!(is_mounted(&world));
    unmount(&world, &mut live);
}

#[test]
fn a_mountpoint_is_an_empty_folder_apart_from_the_project() {
    let world = World::of(Person::Ordinary);
    let folder = world.project().join("folder");
    let place = world.at("");
    let cases = [
        (folder.to_str().unwrap(), "it lies in"),
        (place.to_str().unwrap(), "it holds"),
    ];
    for (mountpoint, why) in cases {
        world
            .aegis(&["mount", ".", mountpoint])
            .refused(&["can not be mounted on", why]);
    }
    world.write("view/file", "");
    let view = world.at("view");
    world
        .aegis(&["mount", ".", view.to_str().unwrap()])
        .refused(&["not empty"]);
    world
        .aegis(&["mount", ".", "/no/such/place"])
        .refused(&["can not be mounted on"]);
    assert!(world.sessions().is_empty());
}

/// Starts the rest of the command line as the given user, in a process that may not make a user and
/// a mount namespace at once, as the launcher does and bubblewrap does not.
const WITHOUT_NAMESPACES: &str = r#"
import ctypes, os, platform, struct, sys
unshare = {"x86_64": 272, "aarch64": 97}[platform.machine()]
steps = [(0x20, 0, 0, 0), (0x15, 0, 3, unshare), (0x20, 0, 0, 16), (0x15, 0, 1, 0x10020000),
         (0x06, 0, 0, 0x00050001), (0x06, 0, 0, 0x7fff0000)]
code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("code", ctypes.c_void_p)]
program = Program(len(steps), ctypes.addressof(code))
assert ctypes.CDLL(None).prctl(22, 2, ctypes.byref(program), 0, 0) == 0
os.setgroups([]); os.setgid(int(sys.argv[2])); os.setuid(int(sys.argv[1]))
os.execv(sys.argv[3], sys.argv[3:])
"#;

/// `aegis-os` as an ordinary user to whom the system refuses namespaces of the launcher's own; `None`
/// where the tests can not switch to one.
fn without_namespaces(world: &World) -> Option<Command> {
    let (user, group) = world.switched_to()?;
    let mut command = Command::new("python3");
    let (user, group) = (user.to_string(), group.to_string());
    command.args(["-c", WITHOUT_NAMESPACES, &user, &group]);
    command.arg(world.at("aegis-os"));
    command
        .env_clear()
        .env("HOME", world.at("home"))
        .env("PATH", "/usr/bin:/bin");
    command.current_dir(world.project());
    Some(command)
}

#[test]
fn the_set_uid_helper_mounts_where_the_launcher_has_no_namespace() {
    let world = World::of(Person::Ordinary);
    let Some(mut command) = without_namespaces(&world) else {
        return;
    };
    command.args(["run", "--", "sh", "-c", "echo new > new; cat kept"]);
    let ended = Ended::of(command.output().unwrap()).ok();
    assert_eq!(ended.stdout, "kept\n");
    let status = world.aegis(&["status"]).ok().stdout;
    assert!(status.contains("mount by fusermount3"), "{status}");
    assert!(status.contains("1 created: new"), "{status}");
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    assert!(
        !mounts.contains(world.at("home").to_str().unwrap()),
        "{mounts}"
    );
}
