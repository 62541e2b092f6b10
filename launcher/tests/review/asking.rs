//! The question before a landing, on a terminal.

use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};

use crate::cli::world::{Person, World};

/// `aegis-os` on a terminal of its own (script(1)), answered question by question.
pub fn on_terminal(world: &World, arguments: &str, answers: &[(&str, &str)]) -> (i32, String) {
    let line = format!("{} {arguments}", world.at("aegis-os").display());
    let mut command = Command::new("script");
    command
        .args(["-qefc", &line, "/dev/null"])
        .current_dir(world.project());
    command
        .env("HOME", world.at("home"))
        .env("AEGIS_PAGER", "cat")
        .env("TERM", "xterm");
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut shown = String::new();
    for (question, answer) in answers {
        read_until(&mut child, &mut shown, question);
        child
            .stdin
            .as_mut()
            .unwrap()
            .write_all(answer.as_bytes())
            .unwrap();
    }
    let mut rest = Vec::new();
    child
        .stdout
        .as_mut()
        .unwrap()
        .read_to_end(&mut rest)
        .unwrap();
    shown.push_str(&String::from_utf8_lossy(&rest));
    (child.wait().unwrap().code().unwrap(), shown)
}

/// Reads what the terminal shows until it ends with `end`.
fn read_until(child: &mut Child, shown: &mut String, end: &str) {
    let output = child.stdout.as_mut().unwrap();
    let mut byte = [0];
    while !shown.ends_with(end) {
        assert_eq!(
            output.read(&mut byte).unwrap(),
            1,
            "`{end}` did not come: {shown}"
        );
        shown.push(char::from(byte[0]));
    }
}

const PROMPT: &str = "Type `yes` to agree: ";

#[test]
fn only_yes_lands() {
    let world = World::of(Person::Myself);
    world.run("echo x > new").ok();
    let before = world.fingerprint();
    for answer in ["y\n", "\n", "no\n"] {
        let (status, shown) = on_terminal(&world, "land", &[(PROMPT, answer)]);
        assert_eq!(status, 1, "{shown}");
        assert!(shown.contains("nothing was landed"), "{shown}");
        assert_eq!(world.fingerprint(), before);
    }
    let (status, shown) = on_terminal(&world, "land", &[(PROMPT, "yes\n")]);
    assert_eq!(status, 0, "{shown}");
    assert!(world.project().join("new").exists());
    let (status, shown) = on_terminal(&world, "undo", &[(PROMPT, "yes\n")]);
    assert_eq!(status, 0, "{shown}");
    assert!(!world.project().join("new").exists());
}

#[test]
fn only_a_typed_yes_throws_a_session_away() {
    let world = World::of(Person::Myself);
    world.run("echo x > new").ok();
    let (status, shown) = on_terminal(&world, "discard", &[(PROMPT, "y\n")]);
    assert_eq!(status, 1, "{shown}");
    assert!(shown.contains("nothing was removed"), "{shown}");
    let (status, shown) = on_terminal(&world, "discard", &[(PROMPT, "yes\n")]);
    assert_eq!(status, 0, "{shown}");
    assert!(shown.contains("is gone"), "{shown}");
}

#[test]
fn what_your_tools_run_is_a_question_of_its_own() {
    let world = World::of(Person::Myself);
    world.run("echo x > new; echo all: > Makefile").ok();
    let answers = [
        ("trust, too? Type `yes` to agree: ", "no\n"),
        ("in the project? Type `yes` to agree: ", "yes\n"),
    ];
    let (status, shown) = on_terminal(&world, "review", &answers);
    assert_eq!(status, 1, "{shown}");
    assert!(shown.contains("\x1b[32m+all:\x1b[m"), "coloured: {shown:?}");
    assert!(
        shown.contains("refused  Makefile: you left it out"),
        "{shown}"
    );
    assert!(world.project().join("new").exists());
    assert!(!world.project().join("Makefile").exists());
}

#[test]
fn what_policy_wants_asked_is_asked_and_the_rest_is_shown_again() {
    let world = World::of(Person::Myself);
    let policy = "@id(\"data\") @ask(\"land a change of data\") \
                  forbid (principal, action == Action::\"workspace.commit\", \
                  resource is ProjectPath) when { resource.path like \"data*\" };";
    world
        .run("echo x > new; echo x > data-1; echo x > data-2")
        .ok();
    world.write("home/.aegis/policy.cedar", policy);
    let question = "Land a change of data, too? Type `yes` to agree: ";
    let last = "names in the project? Type `yes` to agree: ";
    let (status, shown) = on_terminal(&world, "land", &[(question, "no\n"), (last, "yes\n")]);
    assert_eq!(status, 1, "{shown}");
    assert!(shown.contains("a question about 2 of these:"), "{shown}");
    let (before, after) = shown.split_once(question).unwrap();
    assert!(before.contains("create  data-2"), "{shown}");
    assert!(
        after.contains("refused  data-2: you left it out"),
        "{shown}"
    );
    assert!(after.contains("  create  new"), "{shown}");
    assert!(world.project().join("new").exists());
    assert!(!world.project().join("data-1").exists());
    let (status, shown) = on_terminal(&world, "land", &[(question, "yes\n"), (last, "yes\n")]);
    assert_eq!(status, 0, "{shown}");
    assert!(world.project().join("data-1").exists());
}

#[test]
fn what_is_left_out_keeps_its_old_name() {
    let world = World::of(Person::Myself);
    world.run("mv kept Makefile; echo x > new").ok();
    let answers = [
        ("trust, too? Type `yes` to agree: ", "no\n"),
        ("in the project? Type `yes` to agree: ", "yes\n"),
    ];
    let (status, shown) = on_terminal(&world, "land", &answers);
    assert_eq!(status, 1, "{shown}");
    assert!(world.project().join("kept").exists(), "{shown}");
    assert!(world.project().join("new").exists(), "{shown}");
}

#[test]
fn without_a_terminal_nobody_agrees() {
    let world = World::of(Person::Myself);
    world.run("echo x > new").ok();
    let before = world.fingerprint();
    // A session of its own has no controlling terminal.
    let mut command = world.program("/usr/bin/setsid".as_ref());
    command.args([
        "-w".as_ref(),
        world.at("aegis-os").as_os_str(),
        "land".as_ref(),
    ]);
    let ended = crate::cli::world::Ended::of(command.output().unwrap());
    ended.refused(&["landing 1 names needs an answer"]);
    assert_eq!(world.fingerprint(), before);
}
