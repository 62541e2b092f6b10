//! A terminal of the session's own, as an interactive program sees it.

use aegis_tests::TestEnv;

/// Drives `aegis-os run` on a terminal: a small Python program plays the terminal emulator.
const EMULATOR: &str = r#"
import fcntl, os, pty, select, signal, struct, sys, termios, time
steps = [step.split("=>", 1) for step in sys.argv[1].split("||") if step]
pid, terminal = pty.fork()
if pid == 0:
    os.execvp(sys.argv[2], sys.argv[2:])
size = lambda rows, columns: fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
size(33, 101)
seen, at, deadline = "", 0, time.time() + 60
while time.time() < deadline:
    ready, _, _ = select.select([terminal], [], [], 0.1)
    if ready:
        try: chunk = os.read(terminal, 4096)
        except OSError: break
        if not chunk: break
        seen += chunk.decode(errors="replace")
    if steps and steps[0][0] in seen[at:]:
        at = seen.index(steps[0][0], at) + len(steps[0][0])
        do = steps.pop(0)[1]
        if do == "RESIZE": size(40, 120)
        else: os.write(terminal, do.encode().decode("unicode_escape").encode())
_, status = os.waitpid(pid, 0)
print(seen)
print("ENDED", os.waitstatus_to_exitcode(status), "LEFT", len(steps))
"#;

#[track_caller]
fn on_a_terminal(env: &TestEnv, steps: &str, script: &str) -> String {
    let mut command = env.command("python3");
    command.args(["-c", EMULATOR, steps]).arg(env.binary());
    command.args(["run", "--", "bash", "-c", script]);
    aegis_tests::Finished::of(&mut command).ok().stdout
}

#[test]
fn a_program_has_a_terminal_with_the_right_size() {
    let env = TestEnv::with_repository();
    let script = "tty; stty size; trap 'stty size; exit 5' WINCH; echo READY; for i in $(seq 100); do sleep 0.1; done";
    let seen = on_a_terminal(&env, "READY=>RESIZE", script);
    assert!(
        seen.contains("/dev/pts/") && seen.contains("33 101"),
        "{seen}"
    );
    assert!(
        seen.contains("40 120"),
        "the new size did not arrive: {seen}"
    );
    assert!(seen.contains("ENDED 5 LEFT 0"), "{seen}");
}

#[test]
fn an_interrupt_reaches_the_program_and_not_the_launcher() {
    let env = TestEnv::with_repository();
    let script =
        "trap 'echo CAUGHT; exit 3' INT; echo READY; for i in $(seq 100); do sleep 0.1; done";
    let seen = on_a_terminal(&env, "READY=>\\x03", script);
    assert!(
        seen.contains("CAUGHT") && seen.contains("ENDED 3 LEFT 0"),
        "{seen}"
    );
}

#[test]
fn what_is_typed_arrives() {
    let env = TestEnv::with_repository();
    let script = "read -r -p 'NAME? ' name; echo \"hello $name\"; [ -t 0 ] && [ -t 1 ] && exit 4";
    let seen = on_a_terminal(&env, "NAME? =>world\\n", script);
    assert!(
        seen.contains("hello world") && seen.contains("ENDED 4 LEFT 0"),
        "{seen}"
    );
}

#[test]
fn a_pipeline_keeps_its_streams_apart() {
    let env = TestEnv::with_repository();
    let binary = env.binary().display();
    let script = format!(
        "printf 'one\\ntwo\\n' | {binary} run -- sh -c 'cat; echo talk >&2' 2>err | tr a-z A-Z; cat err >&2"
    );
    let seen = env.sh(&script).ok();
    assert_eq!(seen.stdout, "ONE\nTWO\n", "{}", seen.output());
    assert!(seen.stderr.contains("talk"), "{}", seen.stderr);
}
