//! Failures that a user can cause: each says what happened, why, and what to do next, and leaves no
//! half-made session behind.

use std::path::Path;

use aegis_tests::{Finished, TestEnv};

/// A failure before the command: our own status, words for people, and no session.
#[track_caller]
fn tells(env: &TestEnv, seen: &Finished, words: &[&str]) {
    assert_eq!(seen.status.code(), Some(125), "{}", seen.output());
    for word in words {
        assert!(
            seen.stderr.contains(word),
            "`{word}` is missing: {}",
            seen.stderr
        );
    }
    assert!(seen.stderr.contains("what to do"), "{}", seen.stderr);
    assert!(!seen.stderr.contains("panicked"), "{}", seen.stderr);
    let left = std::fs::read_dir(env.home().join(".aegis/sessions")).map_or(0, Iterator::count);
    assert_eq!(left, 0, "a half-made session is left behind");
}

fn run_in(env: &TestEnv, directory: &Path) -> Finished {
    let mut command = env.run_command(&[], "");
    Finished::of(command.args(["-c", "true"]).current_dir(directory))
}

#[test]
fn the_home_directory_is_not_a_project() {
    let env = TestEnv::new();
    tells(&env, &run_in(&env, env.home()), &["home"]);
}

#[test]
fn the_root_is_not_a_project() {
    let env = TestEnv::new();
    tells(&env, &run_in(&env, Path::new("/")), &["`/`"]);
}

#[test]
fn bubblewrap_can_not_be_started() {
    let env = TestEnv::with_repository();
    let without = "mount --bind /dev/null \"$(command -v bwrap)\"";
    tells(
        &env,
        &in_a_machine_where(&env, without, "true"),
        &["bubblewrap"],
    );
}

#[test]
fn user_namespaces_are_refused() {
    let env = TestEnv::with_repository();
    let without = "echo 0 > /proc/sys/user/max_user_namespaces";
    tells(
        &env,
        &in_a_machine_where(&env, without, "true"),
        &["namespaces", "doctor"],
    );
}

#[test]
fn there_is_no_fuse_device() {
    let env = TestEnv::with_repository();
    let without = "mkdir ~/d; mount -t tmpfs tmpfs ~/d; mkdir ~/d/pts ~/d/shm
        for n in null zero full random urandom tty ptmx; do
          touch ~/d/$n; mount --bind /dev/$n ~/d/$n; done
        mount --rbind /dev/pts ~/d/pts; mount --rbind ~/d /dev; test ! -e /dev/fuse";
    tells(
        &env,
        &in_a_machine_where(&env, without, "true"),
        &["/dev/fuse"],
    );
}

/// Runs `aegis-os run -- bash -c SCRIPT` in user and mount namespaces of the test's own, as the same
/// user, after `preparation` has taken something away there.
fn in_a_machine_where(env: &TestEnv, preparation: &str, script: &str) -> Finished {
    let binary = env.binary().display();
    let whole = format!("set -e; {preparation}\nset +e; exec {binary} run -- bash -c '{script}'");
    let mut command = env.command("unshare");
    command.arg(format!("--map-user={}", env.user.uid));
    command.arg(format!("--map-group={}", env.user.gid));
    command.args(["--mount", "--keep-caps", "bash", "-uc", &whole]);
    Finished::of(&mut command)
}

#[test]
fn sessions_that_are_not_there() {
    let env = TestEnv::with_repository();
    for command in [
        &["diff"][..],
        &["land", "--yes"],
        &["status"],
        &["audit"],
        &["undo", "--yes"],
    ] {
        tells(&env, &env.aegis(command), &["no session"]);
    }
    tells(&env, &env.aegis(&["status", "zzz"]), &["zzz"]);
}

#[test]
fn a_session_folder_that_can_not_be_written() {
    let env = TestEnv::with_repository();
    let mut command = env.run_command(&[], "");
    command
        .args(["-c", "true"])
        .env("AEGIS_HOME", "/proc/aegis");
    tells(&env, &Finished::of(&mut command), &["/proc/aegis"]);
}

#[test]
fn a_read_only_path_that_does_not_exist() {
    let env = TestEnv::with_repository();
    let seen = env.run_with(&["--ro", "/no/such/place"], "true");
    assert_eq!(seen.status.code(), Some(125), "{}", seen.output());
    assert!(seen.stderr.contains("/no/such/place"), "{}", seen.stderr);
}

#[test]
fn a_host_that_is_no_name() {
    let env = TestEnv::with_repository();
    let seen = env.run_with(&["--allow", "not a host:0"], "true");
    assert_eq!(seen.status.code(), Some(125), "{}", seen.output());
    assert!(seen.stderr.contains("not a host"), "{}", seen.stderr);
}

#[test]
fn a_full_disk_is_an_error_and_not_a_lie() {
    let env = TestEnv::with_repository();
    let disk = "mkdir -p ~/.aegis; mount -t tmpfs -o size=3m,mode=700 tmpfs ~/.aegis";
    let script = "head -c 9000000 /dev/zero > big; echo status $?; cat keep.txt";
    let seen = in_a_machine_where(&env, disk, script).ok();
    assert!(
        seen.stdout.contains("status 1\nkeep\n"),
        "{}",
        seen.output()
    );
    assert!(!seen.stderr.contains("panicked"), "{}", seen.output());
}

#[test]
fn a_doctor_says_what_is_in_force() {
    let env = TestEnv::new();
    let seen = env.aegis(&["doctor"]).ok();
    for word in ["bubblewrap", "fuse", "namespace", "Landlock", "seccomp"] {
        assert!(
            seen.stdout.to_lowercase().contains(&word.to_lowercase()),
            "`{word}`: {}",
            seen.stdout
        );
    }
}
