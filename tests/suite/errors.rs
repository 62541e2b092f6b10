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
fn bubblewrap_is_missing() {
    let env = TestEnv::with_repository();
    let mut command = env.run_command(&[], "");
    let _ = env
        .sh("mkdir ~/bin; for p in bash sh git true; do ln -s $(command -v $p) ~/bin/; done")
        .ok();
    command
        .args(["-c", "true"])
        .env("PATH", env.home().join("bin"));
    let seen = Finished::of(&mut command);
    // Bubblewrap is looked for in the system's folders too, because PATH is not to be trusted.
    if !seen.status.success() {
        tells(&env, &seen, &["bubblewrap"]);
    }
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

/// A disk of a megabyte, in a mount namespace of the test's own.
#[test]
fn a_full_disk_is_an_error_and_not_a_lie() {
    let env = TestEnv::with_repository();
    let binary = env.binary().display();
    let script = format!(
        "mkdir -p ~/.aegis && mount -t tmpfs -o size=3m,mode=700 tmpfs ~/.aegis
         set +e; {binary} run -- sh -c 'head -c 9000000 /dev/zero > big; echo status $?; echo alive; cat keep.txt'
         {binary} status > /dev/null && echo readable"
    );
    let uid = env.user.uid.to_string();
    let gid = env.user.gid.to_string();
    let mut command = env.command("unshare");
    command.args(["--user", "--mount", &format!("--map-users={uid},{uid},1")]);
    command.args([
        &format!("--map-groups={gid},{gid},1"),
        "--keep-caps",
        "bash",
        "-uc",
        &script,
    ]);
    let seen = Finished::of(&mut command);
    if seen.stderr.contains("unshare:") {
        // The tool of this machine is too old to map a user to itself with capabilities kept.
        return;
    }
    assert!(seen.stdout.contains("status 1"), "{}", seen.output());
    assert!(seen.stdout.contains("alive\nkeep\n"), "{}", seen.output());
    assert!(seen.stdout.contains("readable"), "{}", seen.output());
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
