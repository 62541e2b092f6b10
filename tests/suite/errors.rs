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
    if let Some(seen) = in_a_machine_where(&env, without, "true") {
        tells(&env, &seen, &["bubblewrap"]);
    }
}

#[test]
fn user_namespaces_are_refused() {
    let env = TestEnv::with_repository();
    let without = format!("{LIMIT}max_user_namespaces");
    if let Some(seen) = in_a_machine_where(&env, &without, "true") {
        tells(&env, &seen, &["namespaces", "doctor"]);
    }
}

#[test]
fn there_is_no_fuse_device() {
    let env = TestEnv::with_repository();
    let without = "mkdir ~/d; mount -t tmpfs tmpfs ~/d; mkdir ~/d/pts ~/d/shm
        for n in null zero full random urandom tty ptmx; do
          touch ~/d/$n; mount --bind /dev/$n ~/d/$n; done
        mount --rbind /dev/pts ~/d/pts; mount --rbind ~/d /dev; test ! -e /dev/fuse";
    if let Some(seen) = in_a_machine_where(&env, without, "true") {
        tells(&env, &seen, &["/dev/fuse"]);
    }
}

/// Runs `aegis-os run -- bash -c SCRIPT` after `preparation`, which root carries out in namespaces of
/// the test's own: what it takes away is missing there only.
///
/// `None` when the suite does not run as root.
fn in_a_machine_where(env: &TestEnv, preparation: &str, script: &str) -> Option<Finished> {
    if !env.user.is_switched_to() {
        println!("skipped: only root can prepare such a machine");
        return None;
    }
    let (uid, gid) = (env.user.uid, env.user.gid);
    let whole = format!(
        "set -e; {preparation}\nexec setpriv --reuid={uid} --regid={gid} --clear-groups \
         --inh-caps=-all -- {} run -- bash -c '{script}'",
        env.binary().display()
    );
    let mut command = env.command_as_root("unshare");
    command.arg("--mount");
    if preparation.starts_with(LIMIT) {
        command.args(["python3", "-c", MACHINE, &whole]);
    } else {
        command.args(["bash", "-uc", &whole]);
    }
    Some(Finished::of(&mut command))
}

const LIMIT: &str = "echo 0 > /proc/sys/user/";

/// Starts a shell as root of a new user namespace in which every user is who they are outside, and
/// whose limits can be changed without changing those of the machine.
const MACHINE: &str = r#"
import ctypes, os, sys
up, down = os.pipe(), os.pipe()
child = os.fork()
if child == 0:
    assert ctypes.CDLL(None).unshare(0x10000000) == 0
    os.write(up[1], b"x")
    os.read(down[0], 1)
    os.execvp("bash", ["bash", "-uc", sys.argv[1]])
os.read(up[0], 1)
for kind in ("uid", "gid"):
    with open(f"/proc/{child}/{kind}_map", "w") as ids:
        ids.write("0 0 65536")
os.write(down[1], b"x")
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"#;

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
    command.args(["-c", "true"]).env("AEGIS_HOME", "/usr/aegis");
    tells(&env, &Finished::of(&mut command), &["/usr/aegis"]);
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
    let disk = format!(
        "mkdir ~/.aegis; mount -t tmpfs -o size=3m,mode=700,uid={} tmpfs ~/.aegis",
        env.user.uid
    );
    let script = "head -c 9000000 /dev/zero > big; echo status $?; cat keep.txt";
    let Some(seen) = in_a_machine_where(&env, &disk, script) else {
        return;
    };
    let seen = seen.ok();
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
