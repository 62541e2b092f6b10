//! Where a session can not be: each failure says what happened, why and what to do next, and leaves
//! nothing behind.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::cli::world::{Ended, Person, World};

#[test]
fn directories_that_are_no_projects() {
    let world = World::of(Person::Ordinary);
    let home = world.at("home");
    let cases = [
        (std::path::PathBuf::from("/"), "whole file system"),
        (home.clone(), "your home directory"),
        (
            home.parent().unwrap().to_owned(),
            "holds your home directory",
        ),
        ("/proc/self".into(), "on `proc`"),
        ("/sys/kernel".into(), "on `sysfs`"),
    ];
    for (directory, words) in cases {
        let mut command = world.command(&["run", "--", "true"]);
        Ended::of(command.current_dir(directory).output().unwrap()).refused(&[words]);
        assert!(world.sessions().is_empty());
    }
}

#[test]
fn a_directory_that_is_gone_is_no_project() {
    let world = World::of(Person::Myself);
    let gone = world.project().join("folder");
    let script = format!(
        "cd {0} && rm -r {0} && exec {1} run -- true",
        gone.display(),
        world.at("aegis-os").display()
    );
    let ended = std::process::Command::new("sh")
        .args(["-c", &script])
        .output()
        .unwrap();
    Ended::of(ended).refused(&["current directory can not be found"]);
}

#[test]
fn the_repository_around_the_current_directory_is_the_project() {
    let world = World::of(Person::Ordinary);
    fs::create_dir(world.project().join(".git")).unwrap();
    world.own(&world.project().join(".git"));
    let mut command = world.command(&["run", "--", "sh", "-c", "pwd; cat ../kept"]);
    let ended = Ended::of(
        command
            .current_dir(world.project().join("folder"))
            .output()
            .unwrap(),
    );
    let expected = format!("{}/folder\nkept\n", world.project().display());
    assert_eq!(ended.ok().stdout, expected);
}

#[test]
fn a_session_folder_and_a_project_lie_apart() {
    let world = World::of(Person::Ordinary);
    let before = world.fingerprint();
    let mut command = world.command(&["run", "--", "true"]);
    command.env("AEGIS_HOME", world.project().join("sessions"));
    Ended::of(command.output().unwrap()).refused(&["lies in the project"]);
    assert_eq!(
        world.fingerprint(),
        before,
        "the refusal left something in the project"
    );
    let mut command = world.command(&["run", "--", "true"]);
    command.env("AEGIS_HOME", world.at("home"));
    Ended::of(command.output().unwrap()).refused(&["lies in the session folder"]);
}

#[test]
fn a_session_folder_that_others_can_change_is_refused() {
    let world = World::of(Person::Ordinary);
    let shared = world.at("home/shared");
    fs::create_dir(&shared).unwrap();
    world.own(&shared);
    let refused = |why: &str| {
        let mut command = world.command(&["run", "--", "true"]);
        command.env("AEGIS_HOME", &shared);
        Ended::of(command.output().unwrap()).refused(&["can not be trusted", why]);
    };
    fs::set_permissions(&shared, fs::Permissions::from_mode(0o777)).unwrap();
    refused("everybody may write");
    fs::set_permissions(&shared, fs::Permissions::from_mode(0o770)).unwrap();
    refused("its group");
    if nix::unistd::Uid::effective().is_root() {
        fs::set_permissions(&shared, fs::Permissions::from_mode(0o755)).unwrap();
        std::os::unix::fs::chown(&shared, Some(0), Some(0)).unwrap();
        refused("another user");
    }
}

#[test]
fn a_session_folder_that_can_not_be_made_is_refused() {
    let world = World::of(Person::Ordinary);
    for place in ["/proc/none", "/usr/none", "/no/such/place", "/etc/passwd"] {
        let mut command = world.command(&["run", "--", "true"]);
        command.env("AEGIS_HOME", place);
        Ended::of(command.output().unwrap()).refused(&[place]);
    }
}

#[test]
fn the_view_of_another_session_is_no_project() {
    let world = World::of(Person::Ordinary);
    let mut server = crate::cli::mounts::mounted(&world);
    let mut command = world.command(&["run", "--", "true"]);
    let ended = Ended::of(command.current_dir(world.at("view")).output().unwrap());
    crate::cli::mounts::unmount(&world, &mut server);
    ended.refused(&["view of another session"]);
}

#[test]
fn a_session_has_no_sessions_inside() {
    let world = World::of(Person::Ordinary);
    let ended = world.run("/aegis/bin/aegis-os run -- true");
    ended.refused(&["inside session"]);
}

#[test]
fn a_full_disk_leaves_no_session() {
    let world = World::of(Person::Ordinary);
    let Some((user, group)) = world.switched_to() else {
        return;
    };
    // Room for some of the names of a session, or for all names and no content.
    for limit in ["nr_inodes=7", "size=4k"] {
        let script = format!(
            "mount -t tmpfs -o {limit},mode=700,uid={user} tmpfs {0}/view
             exec setpriv --reuid={user} --regid={group} --clear-groups --inh-caps=-all -- sh -c '
               {0}/aegis-os run -- true; echo status $?; ls -A {0}/view/sessions'",
            world.at("").display(),
        );
        let mut command = std::process::Command::new("unshare");
        command
            .args(["--mount", "sh", "-ec", &script])
            .current_dir(world.project());
        command
            .env("HOME", world.at("home"))
            .env("AEGIS_HOME", world.at("view"));
        let ended = Ended::of(command.output().unwrap()).ok();
        assert_eq!(ended.stdout, "status 125\n", "{limit}: {}", ended.stderr);
        for words in ["No space left", "what to do: free some space"] {
            assert!(ended.stderr.contains(words), "{limit}: {}", ended.stderr);
        }
    }
}

#[test]
fn a_project_can_have_any_name() {
    use std::os::unix::ffi::OsStrExt;
    let world = World::of(Person::Ordinary);
    let name = std::ffi::OsStr::from_bytes(b"a \xff\nb\x1b[31m");
    let strange = world.at("home").join(name);
    fs::rename(world.project(), &strange).unwrap();
    fs::create_dir(world.project()).unwrap();
    let mut command = world.command(&["run", "--", "sh", "-c", "pwd; cat kept; echo x > new"]);
    let ended = Ended::of(command.current_dir(&strange).output().unwrap()).ok();
    assert!(ended.stdout.ends_with("kept\n"));
    assert!(!ended.stderr.contains('\u{1b}'), "{}", ended.stderr);
    let mut command = world.command(&["status"]);
    let status = Ended::of(command.current_dir(&strange).output().unwrap())
        .ok()
        .stdout;
    assert!(status.contains("a \\xff\\u{a}b\\u{1b}[31m"), "{status}");
    assert!(status.contains("1 created: new"), "{status}");
}
