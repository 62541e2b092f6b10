//! Sessions: their life, several at a time, crashes.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use aegis_tests::TestEnv;

#[test]
fn the_exit_status_is_the_commands() {
    let env = TestEnv::with_repository();
    for (script, status) in [
        ("exit 0", 0),
        ("exit 7", 7),
        ("kill -TERM $$", 143),
        ("kill -INT $$", 130),
    ] {
        assert_eq!(env.run(script).status.code(), Some(status), "{script}");
    }
    assert_eq!(
        env.aegis(&["run", "--", "no-such-command-at-all"])
            .status
            .code(),
        Some(127)
    );
    assert_eq!(
        env.aegis(&["run", "--", "./README.md"]).status.code(),
        Some(126)
    );
}

#[test]
fn the_end_says_what_changed_and_what_to_do_next() {
    let env = TestEnv::with_repository();
    let seen = env
        .run("echo new > new.txt; echo evil > .git/hooks/pre-commit || true")
        .ok();
    for word in ["aegis-os diff", "aegis-os land", "aegis-os discard"] {
        assert!(
            seen.stderr.contains(word),
            "`{word}` is missing: {}",
            seen.output()
        );
    }
    assert!(seen.stderr.contains("refused"), "{}", seen.output());
    assert!(
        !seen.stdout.contains("aegis-os"),
        "talk on the stream of data: {}",
        seen.stdout
    );
}

#[test]
fn the_machine_inside_is_as_promised() {
    let env = TestEnv::with_repository();
    let script = r#"
        check() { if eval "$2"; then echo "ok: $1"; else echo "WRONG: $1"; fi; }
        check 'the project is at its own path' '[ "$PWD" = "PROJECT" ]'
        check 'the root is read-only' '! touch /x /usr/x /etc/x 2>/dev/null'
        check 'home is private and writable' 'touch ~/x && [ -z "$(ls /home | grep -v "^USER$")" ]'
        check 'tmp is private and writable' 'touch /tmp/x && [ "$(ls /tmp | wc -l)" -le 3 ]'
        check 'other places are masked' '[ -z "$(ls -A /root /mnt /media 2>/dev/null | grep -v ":$" | grep .)" ]'
        check 'the real tree is shown' 'cmp -s keep.txt /aegis/host/project/keep.txt'
        check 'the real tree is read-only' '! touch /aegis/host/project/x 2>/dev/null'
        check 'own process ids' '[ "$(ls /proc | grep -c "^[0-9]")" -lt 12 ]'
        check 'the same user' '[ "$(id -u)" = UID ] && [ "$(stat -c %u keep.txt)" = UID ]'
        check 'no capabilities' 'grep -q "^CapEff:.0*$" /proc/self/status && grep -q "^CapBnd:.0*$" /proc/self/status'
        check 'no new privileges' 'grep -q "^NoNewPrivs:.1" /proc/self/status'
        check 'a filter of calls' 'grep -q "^Seccomp:.2" /proc/self/status'
ls /proc/$$/fd > /tmp/descriptors
        check 'no descriptors but three' '[ "$(sort -n /tmp/descriptors | tr "\n" " ")" = "0 1 2 " ]'
        check 'only loopback' '[ "$(grep -c : /proc/net/dev)" = 1 ]'
        check 'the session has a name' '[ -n "$AEGIS_SESSION" ]'
        check 'git is the shim' '[ "$(command -v git)" = /aegis/bin/git ]'
        check 'devices' 'echo x > /dev/null && head -c1 /dev/urandom > /dev/null && [ ! -e /dev/sda ] && [ ! -e /dev/fuse ]'
    "#
    .replace("PROJECT", env.project().to_str().unwrap())
    .replace("UID", &env.user.uid.to_string())
    .replace("USER", env.home().components().nth(2).unwrap().as_os_str().to_str().unwrap());
    let seen = env.run(&script).ok();
    assert!(!seen.stdout.contains("WRONG"), "{}", seen.output());
    assert_eq!(seen.stdout.matches("ok: ").count(), 17, "{}", seen.output());
}

/// A user namespace maps one group only; a project may belong to another, shared one.
#[test]
fn a_project_of_a_shared_group_can_be_worked_on() {
    let env = TestEnv::with_repository();
    if !env.user.is_switched_to() {
        println!("skipped: only root can give files to a group that the user is not in");
        return;
    }
    for name in ["", "keep.txt", "src", "src/greet.py", "README.md"] {
        std::os::unix::fs::chown(env.project().join(name), None, Some(0)).unwrap();
    }
    let script = "echo more >> keep.txt; echo new > new; chmod 700 src; mv src/greet.py src/g.py
        rm README.md; ln -s keep.txt link; git status --short";
    let _ = env.run(script).ok();
    env.land();
    assert_eq!(env.read("keep.txt"), "keep\nmore\n");
    assert!(env.project().join("src/g.py").exists() && !env.project().join("README.md").exists());
}

#[test]
fn a_session_is_found_listed_resumed_and_thrown_away() {
    let env = TestEnv::with_repository();
    let _ = env.run("echo one > one.txt; echo private > ~/note").ok();
    let id = only_session(&env)
        .file_name()
        .unwrap()
        .to_str()
        .unwrap()
        .to_owned();
    assert!(env.aegis(&["sessions"]).ok().stdout.contains(&id));
    assert!(env.aegis(&["sessions", "--json"]).ok().stdout.contains(&id));
    assert!(env.aegis(&["status"]).ok().stdout.contains("one.txt"));
    let again = env
        .aegis(&["resume", &id, "--", "sh", "-c", "cat one.txt ~/note"])
        .ok();
    assert!(again.stdout.contains("one\nprivate"), "{}", again.output());
    assert!(env.aegis(&["discard"]).fails().stderr.contains("--yes"));
    let _ = env.aegis(&["discard", "--yes", &id]).ok();
    assert!(sessions(&env).is_empty());
    assert!(!env.project().join("one.txt").exists());
}

#[test]
fn the_home_of_sessions_can_be_elsewhere() {
    let env = TestEnv::with_repository();
    let mut command = env.run_command(&[], "");
    command.env("AEGIS_HOME", env.home().join("elsewhere"));
    let _ = aegis_tests::Finished::of(command.args(["-c", "echo x > x"])).ok();
    assert!(sessions(&env).is_empty());
    assert_eq!(
        fs::read_dir(env.home().join("elsewhere/sessions"))
            .unwrap()
            .count(),
        1
    );
}

#[test]
fn two_sessions_at_once_do_not_see_each_other() {
    let env = TestEnv::with_repository();
    let meet = "echo $NAME > who.txt; echo $NAME >> README.md
        for i in $(seq 20); do sleep 0.1; [ \"$(cat who.txt)\" = $NAME ] || exit 9; done";
    let start = |name: &str| {
        let mut command = env.run_command(&["--name", name], "");
        let script = meet.replace("$NAME", name);
        command
            .args(["-euc", &script])
            .stdin(Stdio::null())
            .stderr(Stdio::null());
        command.spawn().unwrap()
    };
    let (mut left, mut right) = (start("left"), start("right"));
    assert!(left.wait().unwrap().success() && right.wait().unwrap().success());
    assert_eq!(sessions(&env).len(), 2);
    assert!(!env.project().join("who.txt").exists());
}

#[test]
fn a_running_session_can_not_be_landed_or_discarded() {
    let env = TestEnv::with_repository();
    let mut live = start_and_wait_for(&env, "echo x > made.txt; echo > ~/up; sleep 100");
    for command in [&["land", "--yes"][..], &["discard", "--yes"]] {
        let refused = env.aegis(command).fails();
        assert!(refused.stderr.contains("in use"), "{}", refused.output());
    }
    live.kill();
    assert!(!env.project().join("made.txt").exists());
}

#[test]
fn nothing_acknowledged_is_lost_when_the_server_is_killed() {
    let env = TestEnv::with_repository();
    let script = "echo one > one.txt; mv keep.txt kept.txt; rm src/greet.py
        for i in $(seq 200); do echo $i >> lines.txt; done; echo > ~/up; sleep 100";
    let mut live = start_and_wait_for(&env, script);
    live.kill();
    let seen = env.aegis(&[
        "resume",
        "--",
        "sh",
        "-c",
        "ls; tail -1 lines.txt; cat one.txt kept.txt",
    ]);
    let seen = seen.ok();
    assert!(
        seen.stdout.contains("200\none\nkeep\n"),
        "{}",
        seen.output()
    );
    assert!(!seen.stdout.contains("keep.txt"), "{}", seen.output());
    env.land();
    assert_eq!(env.read("lines.txt").lines().count(), 200);
    assert!(!env.project().join("src/greet.py").exists());
}

#[test]
fn nobody_stays_behind_when_the_server_is_killed() {
    let env = TestEnv::with_repository();
    let marker = format!("{}", 7_000 + u64::from(std::process::id()));
    let script = format!("echo > ~/up; sleep {marker}");
    let mut live = start_and_wait_for(&env, &script);
    let running = || {
        let found = fs::read_dir("/proc").unwrap().flatten().filter(|entry| {
            fs::read(entry.path().join("cmdline"))
                .is_ok_and(|line| line == format!("sleep\0{marker}\0").into_bytes())
        });
        found.count()
    };
    assert!(wait_until(|| running() > 0), "the command did not start");
    live.kill();
    let ended = wait_until(|| running() == 0);
    assert!(ended, "the command outlives its session");
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    assert!(!mounts.contains(env.home().to_str().unwrap()), "{mounts}");
}

#[test]
fn the_hosts_edits_show_and_the_agents_own_stay() {
    let env = TestEnv::with_repository();
    let script = "echo agent > keep.txt; echo > ~/up
        for i in $(seq 300); do [ -e from-host ] && grep -q host README.md && break; sleep 0.1; done
        cat from-host README.md keep.txt";
    let output = env.home().join("output");
    let mut command = env.run_command(&[], "");
    command
        .args(["-euc", script])
        .stdout(fs::File::create(&output).unwrap());
    let mut live = command
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait_for_up(&env);
    env.write("from-host", "made by the host\n");
    env.write("README.md", "edited by the host\n");
    env.write("keep.txt", "edited by the host too\n");
    assert!(live.wait().unwrap().success());
    let seen = fs::read_to_string(output).unwrap();
    assert_eq!(seen, "made by the host\nedited by the host\nagent\n");
}

fn sessions(env: &TestEnv) -> Vec<PathBuf> {
    let folder = fs::read_dir(env.home().join(".aegis/sessions"));
    folder
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .collect()
}

fn only_session(env: &TestEnv) -> PathBuf {
    let mut all = sessions(env);
    assert_eq!(all.len(), 1, "{all:?}");
    all.remove(0)
}

/// A running session; it is ended whatever the test does.
struct Live {
    session: Child,
    server: u64,
}

impl Live {
    /// Ends the server at once, as the kernel would for want of memory.
    fn kill(&mut self) {
        let server = self.server.to_string();
        let _ = Command::new("kill").args(["-KILL", &server]).status();
        let _ = self.session.wait();
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.kill();
    }
}

fn start_and_wait_for(env: &TestEnv, script: &str) -> Live {
    let mut command = env.run_command(&[], "");
    command
        .args(["-euc", script])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let session = command.spawn().unwrap();
    wait_for_up(env);
    let server = server(env);
    Live { session, server }
}

/// The process that serves the running session.
fn server(env: &TestEnv) -> u64 {
    let records = sessions(env).into_iter().map(|session| {
        let record = fs::read(session.join("session.json")).unwrap();
        serde_json::from_slice::<serde_json::Value>(&record).unwrap()
    });
    let mut running = records.filter(|record| record["state"] == "running");
    running.next().unwrap()["server"].as_u64().unwrap()
}

/// The script says `echo > ~/up`, which is seen in the session's private home.
fn wait_for_up(env: &TestEnv) {
    let up = || {
        sessions(env)
            .iter()
            .any(|session| session.join("home/up").exists())
    };
    assert!(wait_until(up), "the session did not start");
}

fn wait_until(mut condition: impl FnMut() -> bool) -> bool {
    let started = Instant::now();
    while started.elapsed() < Duration::from_secs(60) {
        if condition() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    false
}

/// A large file is not copied for a byte, an ordinary user's as well; and what the host does to it
/// after the run is told.
#[test]
fn a_large_file_costs_a_page_and_a_torn_one_is_named() {
    let env = TestEnv::with_repository();
    env.write("big", vec![b'x'; 8 << 20]);
    let script = "printf y | dd of=big bs=1 seek=5000000 conv=notrunc status=none";
    let _seen = env.run(script).ok();
    let seen = env.aegis(&["status", "--json"]).ok();
    assert!(seen.stdout.contains("\"torn\":[]"), "{}", seen.output());
    let allocated = env.sh("du -ks ~/.aegis/sessions/*/content | cut -f1").ok();
    assert!(
        allocated.stdout.trim().parse::<u64>().unwrap() < 1024,
        "{}",
        allocated.output()
    );
    let diff = env.aegis(&["diff"]).ok();
    assert!(diff.stdout.contains("big"), "{}", diff.output());
    env.write("big", vec![b'z'; 8 << 20]);
    let seen = env.aegis(&["status", "--json"]).ok();
    assert!(
        seen.stdout.contains("\"torn\":[\"big\"]"),
        "{}",
        seen.output()
    );
    let seen = env.aegis(&["status"]).ok();
    assert!(
        seen.stdout.contains("big: the host's file changed"),
        "{}",
        seen.output()
    );
}
