//! What the agent moved: the old name goes only when the new one comes.

use std::fs;
use std::os::unix::fs::symlink;

use aegisfs::commit::{Approval, CommitError, Plan, Reason};

use super::env::{Env, path, write};

fn project() -> Env {
    Env::new(|root| {
        write(&root.join("notes"), "precious\n");
        write(&root.join("library/one"), "1\n");
        write(&root.join("library/two"), "2\n");
    })
}

fn reason(plan: &Plan, name: &str) -> Option<Reason> {
    let mut items = plan.items().iter();
    items.find(|item| item.path == path(name))?.refusal.clone()
}

/// The project after landing the plan is what it was.
fn lands_nothing(env: &Env, plan: Plan) {
    let before = env.host();
    let frozen = plan.freeze(&env.site()).unwrap();
    let approval = Approval::by_person(frozen.manifest());
    let approved = frozen.approve(&approval).unwrap();
    approved.land(&env.site(), None).unwrap();
    assert_eq!(env.host(), before);
}

#[test]
fn a_refused_name_leaves_the_old_one() {
    let mut env = project();
    env.agent_moves("notes", "bad\x1b[2Jname");
    let plan = env.plan();
    assert!(matches!(reason(&plan, "notes"), Some(Reason::MovedAway(_))));
    lands_nothing(&env, plan);
}

#[test]
fn a_declined_name_leaves_the_old_one() {
    let mut env = project();
    env.agent_moves("notes", "Makefile");
    for name in ["one", "two"] {
        env.agent_moves(&format!("library/{name}"), &format!(".github/{name}"));
    }
    fs::remove_dir(env.agent.join("library")).unwrap();
    let mut plan = env.plan();
    assert_eq!(reason(&plan, "notes"), None);
    plan.decline(&|item| item.is_sensitive() || item.path == path(".github"));
    assert_eq!(
        reason(&plan, "notes"),
        Some(Reason::MovedAway("Makefile".to_owned()))
    );
    lands_nothing(&env, plan);
}

#[test]
fn a_conflict_leaves_the_old_name() {
    for edit in ["", "and more\n"] {
        let mut env = project();
        env.agent_moves("notes", "taken");
        write(&env.agent.join("taken"), format!("precious\n{edit}"));
        write(&env.project.join("taken"), "the host's\n");
        lands_nothing(&env, env.plan());
    }
}

#[test]
fn a_directory_in_the_place_of_a_moved_file_waits_for_it() {
    let mut env = project();
    env.agent_moves("notes", "Makefile");
    write(&env.agent.join("notes/inside"), "x\n");
    let mut plan = env.plan();
    plan.decline(&aegisfs::commit::Item::is_sensitive);
    lands_nothing(&env, plan);
}

#[test]
fn a_move_is_selected_by_its_new_name() {
    let mut env = project();
    env.agent_moves("notes", "elsewhere/notes");
    let plan = env.plan_of(&[path("notes")]);
    assert_eq!(
        reason(&plan, "notes"),
        Some(Reason::MovedAway("elsewhere/notes".to_owned()))
    );
    lands_nothing(&env, plan);
    let plan = env.plan_of(&[path("elsewhere")]);
    let frozen = plan.freeze(&env.site()).unwrap();
    let approval = Approval::by_person(frozen.manifest());
    let approved = frozen.approve(&approval).unwrap();
    assert_eq!(approved.land(&env.site(), None).unwrap().left().count(), 0);
    assert!(!env.project.join("notes").exists());
    assert!(env.project.join("elsewhere/notes").exists());
}

#[test]
fn a_name_that_can_not_come_at_the_last_moment_leaves_the_old_one() {
    let mut env = project();
    env.agent_moves("notes", "library/notes");
    write(&env.agent.join("library/notes"), "precious and more\n");
    let approved = env.approve();
    write(&env.project.join("library/notes"), "the host's\n");
    let before = env.host();
    let landed = approved.land(&env.site(), None).unwrap();
    assert_eq!(landed.left().count(), 2, "{landed:?}");
    assert_eq!(env.host(), before);
}

/// Two sessions, each harmless, the second one reviewed before the first one lands.
#[test]
fn a_repository_is_not_put_together_by_two_sessions() {
    let env = Env::new(|root| write(&root.join("sub/readme"), "x\n"));
    write(&env.agent.join("sub/HEAD"), "ref: refs/heads/main\n");
    write(&env.agent.join("sub/refs/keep"), "x\n");
    write(&env.agent.join("sub/config"), "[core]\n");
    let approved = env.approve();
    fs::create_dir(env.project.join("sub/objects")).unwrap();
    let before = env.host();
    let error = approved.land(&env.site(), None).unwrap_err();
    assert!(
        matches!(
            error,
            CommitError::Outdated {
                reason: Reason::BareRepository,
                ..
            }
        ),
        "{error}"
    );
    assert_eq!(env.host(), before);
    assert!(!env.session.landings().exists());
}

#[test]
fn links_are_followed_through_links() {
    let env = Env::new(|root| {
        fs::create_dir(root.join("sub")).unwrap();
        symlink("/", root.join("sub/out")).unwrap();
        symlink("sub", root.join("near")).unwrap();
    });
    symlink("sub", env.agent.join("y")).unwrap();
    symlink("y/out/etc/passwd", env.agent.join("z")).unwrap();
    symlink("z", env.agent.join("onward")).unwrap();
    symlink("around", env.agent.join("around")).unwrap();
    symlink("near/fine", env.agent.join("fine")).unwrap();
    let plan = env.plan();
    for name in ["z", "onward", "around"] {
        assert_eq!(reason(&plan, name), Some(Reason::LinkLeaves), "{name}");
    }
    for name in ["y", "fine"] {
        assert_eq!(reason(&plan, name), None, "{name}");
    }
}

#[test]
fn what_the_hosts_link_makes_sensitive_is_sensitive() {
    let env = Env::new(|root| {
        write(&root.join("rules/real.txt"), "all:\n");
        symlink("rules/real.txt", root.join("Makefile")).unwrap();
        write(&root.join("flows/old.yml"), "x\n");
        symlink("flows", root.join(".github")).unwrap();
    });
    write(&env.agent.join("rules/real.txt"), "all: evil\n");
    write(&env.agent.join("rules/other.txt"), "x\n");
    write(&env.agent.join("flows/new.yml"), "x\n");
    let plan = env.plan();
    let sensitive = plan.items().iter().filter(|item| item.is_sensitive());
    let sensitive: Vec<_> = sensitive.map(|item| item.path.to_string()).collect();
    assert_eq!(sensitive, ["flows/new.yml", "rules/real.txt"]);
}

#[test]
fn a_file_of_holes_is_not_read() {
    let env = Env::new(|_| {});
    let change = {
        write(&env.agent.join("hollow"), "x\n");
        let mut changes = env.changes();
        changes.pop().unwrap()
    };
    let Some(aegisfs::overlay::changes::Content::Shadow(file)) =
        change.after.as_ref().unwrap().content.clone()
    else {
        panic!("{change:?}");
    };
    let content = fs::OpenOptions::new()
        .write(true)
        .open(env.session.content().join(file))
        .unwrap();
    content.set_len(1 << 40).unwrap();
    let plan = Plan::new(&env.site(), vec![change], &[], &super::env::labels).unwrap();
    assert_eq!(reason(&plan, "hollow"), Some(Reason::TooLarge(1 << 40)));
}
