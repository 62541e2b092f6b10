//! `aegis-os run`: exit status, the untouched host, the summary.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::path::Path;
use std::process::Stdio;

use crate::cli::world::{Ended, Person, World};

#[test]
fn the_exit_status_is_the_commands() {
    for world in World::all() {
        for (script, status) in [
            ("true", 0),
            ("false", 1),
            ("exit 7", 7),
            ("kill -9 $$", 137),
        ] {
            let ended = world.run(script);
            assert_eq!(ended.status, status, "{script}: {ended:#?}");
        }
        assert_eq!(world.aegis(&["run", "--", "./kept"]).status, 126);
    }
}

#[test]
fn a_command_that_does_not_exist_leaves_no_session() {
    for world in World::all() {
        let ended = world.aegis(&["run", "--", "no-such-command"]);
        assert_eq!(ended.status, 127, "{ended:#?}");
        assert!(
            ended.stderr.contains("`no-such-command` was not found"),
            "{ended:#?}"
        );
        assert!(world.sessions().is_empty());
    }
}

#[test]
fn the_host_keeps_its_tree_and_the_summary_says_what_changed() {
    for world in World::all() {
        let before = world.fingerprint();
        let script = "echo new > new && echo more >> kept && rm gone && mv folder/file folder/moved
            chmod 700 folder; ln -s kept link; cat kept; ls folder";
        let ended = world.run(script).ok();
        assert_eq!(ended.stdout, "kept\nmore\nmoved\n");
        assert_eq!(world.fingerprint(), before);
        for word in [
            "2 created",
            "1 moved",
            "1 deleted",
            "and 2 more",
            "`aegis-os land`",
        ] {
            assert!(
                ended.stderr.contains(word),
                "`{word}` is missing: {}",
                ended.stderr
            );
        }
    }
}

#[test]
fn what_was_refused_is_told_once_with_its_count() {
    let world = World::of(Person::Ordinary);
    let script = "mkdir .git; for hook in a b c; do echo evil > .git/config.worktree; done; true";
    std::fs::create_dir(world.project().join(".git")).unwrap();
    world.own(&world.project().join(".git"));
    let ended = world.run(script).ok();
    assert!(ended.stderr.contains("refused"), "{}", ended.stderr);
    assert!(
        ended.stderr.contains(".git/config.worktree"),
        "{}",
        ended.stderr
    );
}

#[test]
fn streams_that_are_closed_or_pipes_are_no_obstacle() {
    let world = World::of(Person::Ordinary);
    let script = format!(
        "exec <&- ; setsid --wait {} run -- sh -c 'cat; echo out; echo err >&2'",
        world.at("aegis-os").display()
    );
    let mut shell = world.program(Path::new("/bin/sh"));
    shell.args(["-c", &script]);
    let ended = Ended::of(shell.output().unwrap()).ok();
    assert_eq!(ended.stdout, "out\n");
    assert!(ended.stderr.contains("err\n"), "{}", ended.stderr);
    let mut silent = world.command(&["run", "--", "true"]);
    silent.stdout(Stdio::null()).stderr(Stdio::null());
    assert!(silent.status().unwrap().success());
}

#[test]
fn a_signal_to_the_launcher_ends_the_session_in_order() {
    let world = World::of(Person::Ordinary);
    for (signal, status) in [(Signal::SIGTERM, 143), (Signal::SIGHUP, 129)] {
        let live = world.start(&["run", "--", "sh", "-c", "touch ~/up made; sleep 1000"]);
        kill(Pid::from_raw(i32::try_from(live.id()).unwrap()), signal).unwrap();
        let ended = Ended::of(live.wait_with_output().unwrap());
        assert_eq!(ended.status, status);
        let listed = world.aegis(&["sessions"]).ok().stdout;
        assert!(listed.contains(&format!("ended ({status})")), "{listed}");
        world.aegis(&["discard", "--yes"]).ok();
    }
    assert!(!world.project().join("made").exists());
}

#[test]
fn a_signal_at_any_moment_of_the_start_leaves_nothing_half_made() {
    let world = World::of(Person::Ordinary);
    for pause in [0, 5, 10, 20, 40, 80] {
        let mut command = world.command(&["run", "--", "sleep", "1000"]);
        let mut live = command
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(std::time::Duration::from_millis(pause));
        kill(
            Pid::from_raw(i32::try_from(live.id()).unwrap()),
            Signal::SIGTERM,
        )
        .unwrap();
        live.wait().unwrap();
        let listed = world.aegis(&["sessions"]).ok().stdout;
        assert!(
            !listed.contains("interrupted"),
            "after {pause} ms: {listed}"
        );
    }
}

/// A container's root: user 0 without CAP_SYS_ADMIN.
#[test]
fn root_of_a_container_has_a_session_too() {
    let world = World::of(Person::Myself);
    if !nix::unistd::Uid::effective().is_root() {
        return;
    }
    let mut command = world.program("setpriv".as_ref());
    command.args(["--bounding-set=-sys_admin", "--inh-caps=-sys_admin", "--"]);
    command.arg(world.at("aegis-os"));
    command.args(["run", "--", "sh", "-c", "echo new >new; id -u"]);
    let ended = Ended::of(command.output().unwrap()).ok();
    assert_eq!(ended.stdout, "0\n");
    assert!(!world.project().join("new").exists());
}
