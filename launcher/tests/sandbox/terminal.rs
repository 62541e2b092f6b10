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
/// A pipe that holds so much is about to be full (pipe(7): 16 pages of 4096).
const FILLING: u64 = 32_768;

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
    fn start(script: &str) -> Self {
        Self::on("xterm", script)
    }

    /// On a terminal that calls itself `kind`.
    #[expect(
        clippy::disallowed_methods,
        reason = "the test starts a launcher on a terminal"
    )]
    fn on(kind: &str, script: &str) -> Self {
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
            .env("TERM", kind)
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
        let unread = rustix::io::ioctl_fionread(&self.slave).unwrap();
        assert_eq!(unread, 0, "the user's shell would read the rest");
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
fn the_terminal_is_in_order_afterwards() {
    let sequences =
        "\\033[?1049h\\033[5;9r\\033[?25l\\033[?1003;1006h\\033[?2004h\\033(0\\016\\033[8m";
    let script = format!("printf '{sequences}last words\\033]0;not ended'");
    let (code, said) = Scripted::start(&script).end();
    assert_eq!(code, Some(0));
    let (_, after) = said.split_once("not ended").unwrap();
    assert!(after.starts_with('\x18'), "{after:?}");
    for restored in [
        "\x1b[?1049l",
        "\x1b[r",
        "\x1b[?25h",
        "\x1b[?1003l",
        "\x1b[?1006l",
        "\x1b[?2004l",
        "\x1b(B",
        "\x0f",
        "\x1b[0m",
        "\x1b[!p",
    ] {
        assert!(after.contains(restored), "{restored:?} is not in {after:?}");
    }
    // Nothing that clears the screen or its history.
    for cleared in ["\x1b[2J", "\x1b[3J", "\x1b[1J", "\x1bc", "\x1b[H"] {
        assert!(!after.contains(cleared), "{after:?}");
    }
}

#[test]
fn a_terminal_without_control_sequences_gets_none() {
    let (_, said) = Scripted::on("dumb", "echo last words").end();
    assert!(said.ends_with("last words\r\n"), "{said:?}");
}

#[test]
fn late_answers_of_the_terminal_are_not_for_the_shell() {
    // More than the command's terminal and the relay hold: the rest waits at the user's terminal.
    let mut terminal = Scripted::start("stty raw -echo; echo ready; sleep 60");
    terminal
        .expect("ready")
        .send(b"rm -rf x\r".repeat(2000).as_slice());
    let launcher = rustix::process::Pid::from_child(&terminal.launcher);
    rustix::process::kill_process(launcher, rustix::process::Signal::TERM).unwrap();
    assert_eq!(terminal.end().0, Some(143));
}

#[test]
fn an_output_that_nobody_reads_does_not_keep_the_launcher() {
    for script in [
        // What ignores the signal, and what has ended before it comes.
        "trap '' TERM HUP; echo ready >&2; yes & sleep 60",
        "seq 20000; echo ready >&2",
    ] {
        let mut launcher = on_pipes(script);
        let mut words = launcher.stderr.take().unwrap();
        let mut said = Vec::new();
        while !said.ends_with(b"ready\n") {
            let mut byte = [0];
            words.read_exact(&mut byte).unwrap();
            said.extend(byte);
        }
        // The pipe fills, and the launcher waits for a reader.
        let output = launcher.stdout.take().unwrap();
        while rustix::io::ioctl_fionread(&output).unwrap() < FILLING {
            thread::sleep(Duration::from_millis(20));
        }
        let pid = rustix::process::Pid::from_child(&launcher);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        assert_eq!(launcher.wait().unwrap().code(), Some(143), "{script}");
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the test starts a launcher without a terminal"
)]
fn on_pipes(script: &str) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "sandbox::terminal::launcher",
            "--ignored",
            "--nocapture",
        ])
        .env(SCRIPT, script)
        .stdin(ChildStdio::piped())
        .stdout(ChildStdio::piped())
        .stderr(ChildStdio::piped())
        .spawn()
        .unwrap()
}

#[test]
fn pipes_carry_data_unchanged() {
    let mut launcher = on_pipes("cat; echo complaint >&2; exit 9");
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
