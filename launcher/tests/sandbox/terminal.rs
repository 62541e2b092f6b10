//! The command on a terminal: a scripted one on the outside, the real relay between.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio as ChildStdio};
use std::thread;
use std::time::Duration;

use aegis_launcher::terminal::Stdio;
use rustix::pty::OpenptFlags;
use rustix::termios::Winsize;

use super::body::Body;

/// Carries the script to the test that is the launcher.
const SCRIPT: &str = "AEGIS_TEST_SCRIPT";

/// The launcher's side; started by the other tests on a terminal of theirs.
#[test]
#[ignore = "started by the other tests of this file"]
fn launcher() {
    let script = std::env::var_os(SCRIPT).unwrap();
    let mut body = Body::new();
    body.request.command = vec!["sh".into(), "-c".into(), script];
    let mut stdio = Stdio::prepare().unwrap();
    let running = body.build(&mut stdio).unwrap().go().unwrap();
    let exit = stdio.relay(running).unwrap();
    drop(body);
    std::process::exit(exit.code.into());
}

struct Scripted {
    launcher: Child,
    master: File,
    slave: OwnedFd,
    said: String,
}

impl Scripted {
    #[expect(
        clippy::disallowed_methods,
        reason = "the test starts a launcher on a terminal"
    )]
    fn start(script: &str) -> Self {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let master = rustix::pty::openpt(flags).unwrap();
        rustix::pty::unlockpt(&master).unwrap();
        let slave = rustix::pty::ioctl_tiocgptpeer(&master, flags).unwrap();
        resize(&master, 40, 100);
        let stream = || ChildStdio::from(slave.try_clone().unwrap());
        let launcher = Command::new("setsid")
            .arg("--ctty")
            .arg(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "sandbox::terminal::launcher",
                "--ignored",
                "--nocapture",
            ])
            .args(["--test-threads", "1"])
            .env(SCRIPT, script)
            .stdin(stream())
            .stdout(stream())
            .stderr(stream())
            .spawn()
            .unwrap();
        Self {
            launcher,
            master: master.into(),
            slave,
            said: String::new(),
        }
    }

    /// Reads until the command has said something.
    fn expect(&mut self, words: &str) -> &mut Self {
        let mut buffer = [0; 1024];
        while !self.said.contains(words) {
            let count = self.master.read(&mut buffer).unwrap();
            self.said
                .push_str(&String::from_utf8_lossy(&buffer[..count]));
        }
        self
    }

    fn send(&mut self, keys: &[u8]) -> &mut Self {
        self.master.write_all(keys).unwrap();
        self
    }

    fn is_raw(&self) -> bool {
        use rustix::termios::LocalModes;
        let settings = rustix::termios::tcgetattr(&self.slave).unwrap();
        !settings
            .local_modes
            .intersects(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG)
    }

    /// Waits for the end; what was said meanwhile is read, or the launcher could not end.
    fn end(mut self) -> (Option<i32>, String) {
        let mut master = self.master.try_clone().unwrap();
        let reader = thread::spawn(move || {
            let mut rest = Vec::new();
            let mut buffer = [0; 1024];
            // EIO: the last one to hold the other side is gone.
            while let Ok(count @ 1..) = master.read(&mut buffer) {
                rest.extend_from_slice(&buffer[..count]);
            }
            rest
        });
        let code = self.launcher.wait().unwrap().code();
        assert!(!self.is_raw(), "the terminal was left in raw mode");
        drop(self.slave);
        let said = self.said + &String::from_utf8_lossy(&reader.join().unwrap());
        (code, said)
    }
}

fn resize(master: &impl std::os::fd::AsFd, rows: u16, columns: u16) {
    let size = Winsize {
        ws_row: rows,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    rustix::termios::tcsetwinsize(master, size).unwrap();
}

#[test]
fn the_command_has_a_terminal_of_its_own() {
    let (code, said) = Scripted::start("tty; stty size; ls -l /proc/self/fd/0; exit 3").end();
    assert_eq!(code, Some(3));
    assert!(said.contains("/dev/pts/0\r\n40 100\r\n"), "{said}");
}

#[test]
fn control_c_is_for_the_command() {
    let mut terminal =
        Scripted::start("trap 'echo caught; exit 7' INT; echo ready; sleep 60 & wait");
    terminal.expect("ready");
    assert!(terminal.is_raw());
    terminal.send(b"\x03").expect("caught");
    assert_eq!(terminal.end().0, Some(7));
}

#[test]
fn keys_arrive() {
    let mut terminal = Scripted::start("echo ready; read line; echo \"got $line\"; cat");
    terminal
        .expect("ready")
        .send(b"words\r")
        .expect("got words")
        .send(b"\x04");
    assert_eq!(terminal.end().0, Some(0));
}

#[test]
fn the_size_follows() {
    let mut terminal =
        Scripted::start("trap 'stty size; exit 4' WINCH; echo ready; while :; do sleep 0.05; done");
    terminal.expect("ready");
    resize(&terminal.master, 50, 120);
    terminal.expect("50 120");
    assert_eq!(terminal.end().0, Some(4));
}

#[test]
fn a_killed_command_is_reported_as_a_shell_does() {
    assert_eq!(Scripted::start("kill -9 $$").end().0, Some(137));
}

#[test]
fn all_output_is_shown() {
    let (code, said) = Scripted::start("seq 20000").end();
    assert_eq!(code, Some(0));
    assert!(said.contains("\r\n19999\r\n20000\r\n"));
}

#[test]
fn a_signal_to_the_launcher_ends_what_ignores_it() {
    let mut terminal = Scripted::start("trap '' TERM HUP; echo ready; sleep 60; sleep 60");
    terminal.expect("ready");
    let launcher = rustix::process::Pid::from_child(&terminal.launcher);
    rustix::process::kill_process(launcher, rustix::process::Signal::TERM).unwrap();
    assert_eq!(terminal.end().0, Some(143));
}

#[test]
fn a_closed_terminal_ends_the_session() {
    let mut terminal = Scripted::start("trap '' HUP; echo ready; sleep 60; sleep 60");
    terminal.expect("ready");
    let Scripted {
        mut launcher,
        master,
        slave,
        ..
    } = terminal;
    drop((master, slave));
    assert_eq!(launcher.wait().unwrap().code(), Some(129));
}

#[test]
fn a_launcher_that_is_killed_takes_everything_along() {
    let mark = format!("32{}", std::process::id());
    let mut terminal = Scripted::start(&format!("setsid sleep {mark} & echo ready; sleep {mark}"));
    terminal.expect("ready");
    terminal.launcher.kill().unwrap();
    terminal.launcher.wait().unwrap();
    while super::body::is_running(&["sleep", &mark]) {
        // The kernel kills one after the other; a survivor is found by the test's own deadline.
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn job_control_works() {
    let mut terminal = Scripted::start("PS1='ready> ' exec bash --norc --noprofile -i");
    terminal
        .expect("ready> ")
        .send(b"sleep 61\r")
        .expect("sleep 61");
    // The shell gives the terminal to the job after it has echoed the line.
    thread::sleep(Duration::from_millis(300));
    terminal
        .send(b"\x1a")
        .expect("Stopped")
        .send(b"kill %1; exit 5\r");
    thread::sleep(Duration::from_millis(100));
    terminal.send(b"exit 5\r");
    assert_eq!(terminal.end().0, Some(5));
}

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "the test starts a launcher without a terminal"
)]
fn pipes_carry_data_unchanged() {
    let mut launcher = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "sandbox::terminal::launcher",
            "--ignored",
            "--nocapture",
        ])
        .env(SCRIPT, "cat; echo complaint >&2; exit 9")
        .stdin(ChildStdio::piped())
        .stdout(ChildStdio::piped())
        .stderr(ChildStdio::piped())
        .spawn()
        .unwrap();
    let sent: Vec<u8> = (0..300_000_u32).flat_map(u32::to_le_bytes).collect();
    let mut input = launcher.stdin.take().unwrap();
    let given = sent.clone();
    let writer = thread::spawn(move || input.write_all(&given).unwrap());
    let output = launcher.wait_with_output().unwrap();
    writer.join().unwrap();
    assert_eq!(output.status.code(), Some(9));
    // The test harness says a line of its own before.
    assert!(output.stdout.ends_with(&sent));
    assert!(output.stderr.ends_with(b"complaint\n"));
}
