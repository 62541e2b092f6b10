//! What goes wrong around a view while it is served: the project vanishes, descriptors run out.

use std::fs;
use std::process::Stdio;

use nix::sys::signal::Signal;

use super::{is_mounted, mounted, shell, unmount};
use crate::cli::world::{Ended, Person, World, eventually, send};

#[test]
fn a_project_that_vanishes_is_told_and_comes_back() {
    let world = World::of(Person::Ordinary);
    let mut view = mounted(&world);
    shell(&world, "cd $VIEW; echo mine > mine; cat kept").ok();
    let (project, aside) = (world.project(), world.at("home/aside"));
    // Moved away: the view follows the directory and not its name.
    fs::rename(&project, &aside).unwrap();
    let seen = shell_away(
        &world,
        "cd $VIEW; cat folder/file mine; echo more >> kept; cat kept",
    );
    assert_eq!(seen.stdout, "file\nmine\nkept\nmore\n");
    fs::rename(&aside, &project).unwrap();
    // Emptied: what is gone is gone, what the session has stays, and what comes back is seen.
    fs::remove_dir_all(project.join("folder")).unwrap();
    eventually(|| shell(&world, "cat $VIEW/folder/file").status != 0);
    let seen = shell(
        &world,
        "cd $VIEW; cat mine; ! cat folder/file; ! ls folder; ls",
    )
    .ok();
    assert!(seen.stderr.contains("No such file"), "{seen:#?}");
    assert_eq!(seen.stdout, "mine\ngone\nkept\nmine\n");
    fs::create_dir(project.join("folder")).unwrap();
    fs::write(project.join("folder/file"), "again\n").unwrap();
    world.own(&project.join("folder"));
    world.own(&project.join("folder/file"));
    eventually(|| shell(&world, "cat $VIEW/folder/file").stdout == "again\n");
    // Removed altogether.
    fs::remove_dir_all(&project).unwrap();
    fs::create_dir(&project).unwrap();
    let seen = shell_away(&world, "cd $VIEW; cat mine; ls; echo new > new; cat new");
    assert!(seen.stdout.contains("mine\n"), "{seen:#?}");
    assert!(seen.stdout.ends_with("new\n"), "{seen:#?}");
    send(view.id(), Signal::SIGTERM);
    assert!(view.wait().unwrap().success());
    assert!(!is_mounted(&world));
    // The session is not of the directory that is there now.
    world.aegis(&["sessions"]).ok();
    let id = world.only_session();
    world
        .aegis(&["land", "--session", &id, "--yes"])
        .refused(&["is not the directory"]);
}

/// A script that does not start in the project.
fn shell_away(world: &World, script: &str) -> Ended {
    let mut command = super::script_of(world, script);
    Ended::of(command.current_dir(world.at("home")).output().unwrap())
}

#[test]
fn a_server_without_descriptors_says_so_and_recovers() {
    for world in World::all() {
        // The hard limit too: the server can not raise it.
        let mut command = world.program("/usr/bin/prlimit".as_ref());
        command
            .args(["--nofile=64:64", "--"])
            .arg(world.at("aegis-os"));
        command.args(["mount", "."]).arg(world.at("view"));
        let mut view = command.stderr(Stdio::null()).spawn().unwrap();
        eventually(|| is_mounted(&world));
        let script = r#"
import errno, os, sys
view = os.environ["VIEW"]
held, seen = [], None
for number in range(200):
    try:
        held.append(os.open(f"{view}/file-{number}", os.O_CREAT | os.O_RDWR, 0o644))
    except OSError as error:
        seen = error.errno
        break
assert seen == errno.ENFILE, seen
os.write(held[0], b"still")
for descriptor in held:
    os.close(descriptor)
for number in range(200):
    with open(f"{view}/kept") as file:
        assert file.read() == "kept\n"
print("fine")
"#;
        let mut python = world.program("/usr/bin/python3".as_ref());
        let python = python.args(["-c", script]).env("VIEW", world.at("view"));
        let seen = Ended::of(python.output().unwrap()).ok();
        assert_eq!(seen.stdout, "fine\n");
        unmount(&world, &mut view);
    }
}

#[test]
fn a_view_with_a_leftover_below_it_can_be_mounted_again() {
    let world = World::of(Person::Ordinary);
    let mut dead = mounted(&world);
    super::kill_all(&world, &mut dead);
    assert!(
        is_mounted(&world),
        "the test needs a mount that is left behind"
    );
    let mut view = mounted_again(&world);
    let seen = shell(&world, "cat $VIEW/kept").ok();
    assert_eq!(seen.stdout, "kept\n");
    unmount(&world, &mut view);
}

fn mounted_again(world: &World) -> std::process::Child {
    let mut command = world.command(&["mount", "."]);
    command.arg(world.at("view")).stderr(Stdio::null());
    let child = command.spawn().unwrap();
    eventually(|| shell(world, "[ -e $VIEW/kept ]").status == 0);
    child
}
