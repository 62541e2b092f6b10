//! What lands, and how it looks afterwards.

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};

use aegisfs::commit::{Approval, CommitError, Done, Reason, relocations};

use super::env::{Env, chmod, path, tree, write};

/// A project with one of everything.
fn project(root: &std::path::Path) {
    write(&root.join("src/main.rs"), "fn main() {}\n");
    write(&root.join("src/old.rs"), "old\n");
    write(&root.join("run.sh"), "#!/bin/sh\n");
    write(&root.join("docs/a/deep.md"), "deep\n");
    write(&root.join("image.bin"), b"\0\x01\x02");
    symlink("src/main.rs", root.join("entry")).unwrap();
    write(&root.join("becomes-directory"), "file\n");
    write(&root.join("becomes-file/inner"), "inner\n");
}

fn work(env: &mut Env) {
    write(&env.agent.join("src/main.rs"), "fn main() { work() }\n");
    write(&env.agent.join("src/new/deep/file.rs"), "new\n");
    fs::remove_file(env.agent.join("src/old.rs")).unwrap();
    fs::remove_dir_all(env.agent.join("docs")).unwrap();
    chmod(&env.agent.join("run.sh"), 0o755);
    write(&env.agent.join("image.bin"), b"\0\x03");
    fs::remove_file(env.agent.join("entry")).unwrap();
    symlink("src/new", env.agent.join("entry")).unwrap();
    fs::remove_file(env.agent.join("becomes-directory")).unwrap();
    write(&env.agent.join("becomes-directory/inner"), "x\n");
    fs::remove_dir_all(env.agent.join("becomes-file")).unwrap();
    write(&env.agent.join("becomes-file"), "y\n");
    fs::create_dir(env.agent.join("sealed")).unwrap();
    write(&env.agent.join("sealed/inside"), "z\n");
    chmod(&env.agent.join("sealed"), 0o555);
}

#[test]
fn every_kind_of_change_lands() {
    let mut env = Env::new(project);
    work(&mut env);
    let landed = env.land();
    assert_eq!(landed.left().count(), 0, "{landed:?}");
    assert_eq!(env.host(), tree(&env.agent));
}

#[test]
fn a_landing_is_the_base_of_the_next_one() {
    let mut env = Env::new(project);
    work(&mut env);
    env.land();
    assert!(env.plan().items().is_empty(), "{:?}", env.plan());

    write(&env.project.join("src/main.rs"), "fn main() { host() }\n");
    assert!(
        env.plan().items().is_empty(),
        "what only the host changed is no change"
    );
    write(&env.agent.join("src/main.rs"), "fn main() { agent() }\n");
    let landed = env.land();
    assert_eq!(landed.results.len(), 1);
    assert_eq!(landed.left().count(), 1, "{landed:?}");
    write(&env.project.join("src/main.rs"), "fn main() { work() }\n");
    assert_eq!(env.land().left().count(), 0);
    assert_eq!(env.host(), tree(&env.agent));
}

#[test]
fn a_moved_file_keeps_its_inode() {
    let mut env = Env::new(project);
    let inode = fs::metadata(env.project.join("src/old.rs")).unwrap().ino();
    env.agent_moves("src/old.rs", "lib/renamed.rs");
    let landed = env.land();
    assert_eq!(landed.left().count(), 0, "{landed:?}");
    assert_eq!(env.host(), tree(&env.agent));
    assert_eq!(
        fs::metadata(env.project.join("lib/renamed.rs"))
            .unwrap()
            .ino(),
        inode
    );
    let relocations = relocations(&env.session).unwrap();
    assert_eq!(
        *relocations.locate(&path("src/old.rs")),
        path("lib/renamed.rs")
    );
    assert!(
        env.plan().items().is_empty(),
        "the bytes are found under their new name"
    );
    write(&env.project.join("lib/renamed.rs"), "edited by the host\n");
    assert!(
        env.plan().items().is_empty(),
        "what the host does to it later is its own"
    );
}

#[test]
fn a_move_carries_what_the_host_changed() {
    let mut env = Env::new(project);
    env.agent_moves("src/old.rs", "renamed.rs");
    write(&env.project.join("src/old.rs"), "changed by the host\n");
    assert_eq!(env.land().left().count(), 0);
    assert!(!env.project.join("src/old.rs").exists());
    assert_eq!(
        fs::read_to_string(env.project.join("renamed.rs")).unwrap(),
        "changed by the host\n"
    );
}

#[test]
fn links_of_one_file_land_as_links() {
    let env = Env::new(project);
    write(&env.agent.join("one"), "twice\n");
    fs::hard_link(env.agent.join("one"), env.agent.join("two")).unwrap();
    assert_eq!(env.land().left().count(), 0);
    let inode = |name| fs::metadata(env.project.join(name)).unwrap().ino();
    assert_eq!(inode("one"), inode("two"));
}

#[test]
fn hard_linked_files_of_the_host_are_not_parted() {
    let env = Env::new(project);
    fs::hard_link(
        env.project.join("src/main.rs"),
        env.temp.path().join("elsewhere"),
    )
    .unwrap();
    write(&env.agent.join("src/main.rs"), "changed\n");
    let landed = env.land();
    let (_, reason) = landed.left().next().unwrap();
    assert_eq!(*reason, Reason::HardLinked(2));
    // Permission bits change in place.
    let env = Env::new(project);
    fs::hard_link(
        env.project.join("run.sh"),
        env.temp.path().join("elsewhere"),
    )
    .unwrap();
    chmod(&env.agent.join("run.sh"), 0o755);
    assert_eq!(env.land().left().count(), 0);
    assert_eq!(
        fs::metadata(env.temp.path().join("elsewhere"))
            .unwrap()
            .mode()
            & 0o777,
        0o755
    );
}

#[test]
fn owner_and_attributes_of_a_replaced_file_stay() {
    let env = Env::new(project);
    let target = env.project.join("src/main.rs");
    if rustix::fs::setxattr(
        &target,
        "user.note",
        b"mine",
        rustix::fs::XattrFlags::empty(),
    )
    .is_err()
    {
        return;
    }
    write(&env.agent.join("src/main.rs"), "changed\n");
    env.land();
    let mut value = [0; 16];
    let length = rustix::fs::getxattr(&target, "user.note", &mut value[..]).unwrap();
    assert_eq!(&value[..length], b"mine");
}

#[test]
fn only_what_is_selected_lands() {
    let mut env = Env::new(project);
    work(&mut env);
    let plan = env.plan_of(&[path("src/new/deep/file.rs")]);
    let names: Vec<String> = plan
        .items()
        .iter()
        .map(|item| item.path.to_string())
        .collect();
    assert_eq!(names, ["src/new", "src/new/deep", "src/new/deep/file.rs"]);
    let frozen = plan.freeze(&env.site()).unwrap();
    let approval = Approval::by_person(frozen.manifest());
    frozen
        .approve(&approval)
        .unwrap()
        .land(&env.site(), None)
        .unwrap();
    assert!(env.project.join("src/new/deep/file.rs").exists());
    assert!(env.project.join("src/old.rs").exists());
}

#[test]
fn an_approval_is_for_one_manifest() {
    let env = Env::new(project);
    write(&env.agent.join("a"), "one\n");
    let approval = Approval::by_person(env.freeze().manifest());
    write(&env.agent.join("a"), "two\n");
    let error = env.freeze().approve(&approval).unwrap_err();
    assert!(
        matches!(error, CommitError::WrongApproval { .. }),
        "{error}"
    );
}

#[test]
fn a_changed_stage_does_not_land() {
    let env = Env::new(project);
    let before = env.host();
    write(&env.agent.join("a"), "approved\n");
    write(&env.agent.join("b"), "approved too\n");
    let approved = env.approve();
    for entry in fs::read_dir(env.session.stage()).unwrap() {
        let at = entry.unwrap().path();
        if at.is_file() && fs::read(&at).unwrap() == b"approved too\n" {
            fs::write(&at, "swapped\n").unwrap();
        }
    }
    let error = approved.land(&env.site(), None).unwrap_err();
    assert!(matches!(error, CommitError::Tampered { .. }), "{error}");
    assert_eq!(env.host(), before);
}

#[test]
fn what_the_host_changed_after_the_review_is_left() {
    let env = Env::new(project);
    write(&env.agent.join("src/main.rs"), "agent\n");
    write(&env.agent.join("other"), "agent\n");
    let approved = env.approve();
    write(&env.project.join("src/main.rs"), "host\n");
    let landed = approved.land(&env.site(), None).unwrap();
    let left: Vec<_> = landed
        .left()
        .map(|(outcome, reason)| (&outcome.path, reason))
        .collect();
    assert_eq!(left, [(&path("src/main.rs"), &Reason::ChangedJustNow)]);
    assert_eq!(
        fs::read_to_string(env.project.join("src/main.rs")).unwrap(),
        "host\n"
    );
    assert!(env.project.join("other").exists());
}

#[test]
fn the_same_on_both_sides_is_done_already() {
    let env = Env::new(project);
    write(&env.agent.join("new"), "same\n");
    write(&env.project.join("new"), "same\n");
    let landed = env.land();
    assert_eq!(landed.results.first().unwrap().result, Ok(Done::Already));
    assert_eq!(landed.changed(), 0);
}

#[test]
fn a_directory_that_holds_something_new_stays() {
    let env = Env::new(project);
    fs::remove_dir_all(env.agent.join("docs")).unwrap();
    write(&env.project.join("docs/a/host.md"), "host\n");
    let landed = env.land();
    let left: Vec<_> = landed
        .left()
        .map(|(outcome, _)| outcome.path.to_string())
        .collect();
    assert_eq!(left, ["docs", "docs/a"]);
    assert!(env.project.join("docs/a/host.md").exists());
    assert!(!env.project.join("docs/a/deep.md").exists());
}

#[test]
fn a_landing_is_in_the_journal() {
    use aegis_policies::journal::{Event, Journal, read};
    let env = Env::new(project);
    write(&env.agent.join("a"), "one\n");
    fs::create_dir_all(env.session.journal()).unwrap();
    let journal = Journal::create(&env.session.journal()).unwrap();
    let landed = env.approve().land(&env.site(), Some(&journal)).unwrap();
    let events: Vec<Event> = read(&env.session.journal())
        .unwrap()
        .map(|entry| entry.unwrap().1.event)
        .collect();
    assert!(events.iter().any(|event| matches!(event,
        Event::Landed { landing, paths: 1, undo: false, .. } if *landing == landed.id)));
}

#[test]
fn hundreds_of_files_land() {
    let env = Env::new(project);
    for number in 0..300 {
        write(
            &env.agent.join(format!("many/{}/{number}", number % 7)),
            format!("{number}\n"),
        );
    }
    assert_eq!(env.land().left().count(), 0);
    assert_eq!(env.host(), tree(&env.agent));
}
