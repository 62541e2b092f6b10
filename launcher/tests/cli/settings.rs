//! The user's own settings, and what the machine offers.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::cli::world::{Person, World};

#[test]
fn settings_show_a_path_and_are_refused_when_they_make_no_sense() {
    let world = World::of(Person::Ordinary);
    world.write("home/shown", "shown\n");
    let read = format!("cat {}", world.at("home/shown").display());
    assert_ne!(world.run(&read).status, 0);
    world.write("home/.aegis/config.toml", "ro = ['~/shown']\n");
    assert_eq!(world.run(&read).ok().stdout, "shown\n");
    for (settings, words) in [("ro = ['shown']", "relative"), ("unknown = 1", "unknown")] {
        world.write("home/.aegis/config.toml", settings);
        world.run("true").refused(&["config.toml", words]);
    }
    fs::set_permissions(
        world.at("home/.aegis/config.toml"),
        fs::Permissions::from_mode(0o666),
    )
    .unwrap();
    world.run("true").refused(&["can not be trusted"]);
}

#[test]
fn a_policy_of_the_users_own_is_in_force() {
    let world = World::of(Person::Ordinary);
    world.run("true").ok();
    let policy = "@id(\"mine\") @reason(\"no new names\") \
                  forbid (principal, action == Action::\"fs.create\", resource);";
    world.write("home/.aegis/policy.cedar", policy);
    let ended = world.run("touch new");
    assert_ne!(ended.status, 0, "{ended:#?}");
    assert!(ended.stderr.contains("user.mine"), "{}", ended.stderr);
    world.write("home/.aegis/policy.cedar", "permit (principal");
    world.run("true").refused(&["policy.cedar"]);
    assert_eq!(
        world.sessions().len(),
        2,
        "a session that did not start is left behind"
    );
}

#[test]
fn hosts_that_are_no_hosts_are_refused() {
    let world = World::of(Person::Ordinary);
    world
        .aegis(&["run", "--allow", "a b:0", "--", "true"])
        .refused(&["a b:0"]);
    world
        .aegis(&["run", "--ro", "/no/such", "--", "true"])
        .refused(&["/no/such"]);
    assert!(world.sessions().is_empty());
}

#[test]
fn doctor_tries_a_whole_session_and_leaves_none() {
    for world in World::all() {
        let text = world.aegis(&["doctor"]).ok().stdout;
        assert!(text.contains("tier") && text.contains("enforced"), "{text}");
        assert!(
            text.contains("served") && text.contains("with watches"),
            "{text}"
        );
        assert!(text.contains("allow_other"), "{text}");
        let report = world.aegis(&["doctor", "--json"]).ok().stdout;
        let report: serde_json::Value = serde_json::from_str(&report).unwrap();
        assert_eq!(
            (&report["fit"], &report["tier"]),
            (&true.into(), &"enforced".into())
        );
        assert!(report["features"]["threads"].is_u64(), "{report}");
        assert!(world.sessions().is_empty());
    }
}

#[test]
fn help_is_data_and_a_wrong_command_line_is_not() {
    let world = World::of(Person::Ordinary);
    let help = world.aegis(&["run", "--help"]).ok();
    assert!(help.stdout.contains("Examples:"), "{}", help.stdout);
    let wrong = world.aegis(&["no-such-command"]);
    assert_eq!((wrong.status, wrong.stdout.as_str()), (125, ""));
}
