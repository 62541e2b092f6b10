//! Commits that bring more than the files that land.

use std::process::Command;

use super::asking::on_terminal;
use crate::cli::world::{Person, World};

const GIT: &str = "git -c user.name=A -c user.email=a@example.org";

fn git(world: &World, arguments: &str) -> String {
    let output = Command::new("sh")
        .args(["-c", &format!("{GIT} {arguments}")])
        .current_dir(world.project())
        .env("HOME", world.at("home"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn what_only_a_commit_has_is_a_question_of_its_own() {
    let world = World::of(Person::Myself);
    git(&world, "init -q -b main");
    git(&world, "add kept");
    git(&world, "commit -q -m first");
    let head = git(&world, "rev-parse HEAD");
    world
        .run(&format!(
            "echo all: > Makefile; git add Makefile; {GIT} commit -q -m typo
             rm Makefile; echo x > new"
        ))
        .ok();
    let answers = [
        (
            "trust, and that is not among the files, too? Type `yes` to agree: ",
            "no\n",
        ),
        ("in the project? Type `yes` to agree: ", "yes\n"),
    ];
    let (status, shown) = on_terminal(&world, "review", &answers);
    assert_eq!(status, 1, "{shown}");
    for words in [
        "in commits only: Makefile (refs/heads/main; sensitive: build-script)",
        &format!("refs/heads/main: {} -> ", &head[..10]),
        "branch main: 1 commit",
    ] {
        assert!(shown.contains(words), "{words}: {shown}");
    }
    assert!(world.project().join("new").exists());
    assert_eq!(git(&world, "rev-parse HEAD"), head);
    let ended = world.aegis(&["land", "--yes"]).ok();
    assert!(format!("{ended:?}").contains("in commits only: Makefile"));
    assert_ne!(git(&world, "rev-parse HEAD"), head);
}
