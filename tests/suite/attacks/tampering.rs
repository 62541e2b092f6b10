//! Configuration that would run later, outside the sandbox.

use super::attack;

#[track_caller]
fn changes_home(script: &str, file: &str) {
    attack(
        |_| script.to_owned(),
        |world, _| world.home_has(file, "EVIL"),
    );
}

#[test]
fn the_users_settings_of_an_agent() {
    changes_home(
        "echo EVIL > ~/.claude/settings.json",
        ".claude/settings.json",
    );
}

#[test]
fn settings_of_an_agent_that_do_not_exist_yet() {
    changes_home(
        "mkdir -p ~/.claude; echo EVIL > ~/.claude/settings.local.json",
        ".claude/settings.local.json",
    );
}

#[test]
fn settings_whose_directory_is_moved_away() {
    changes_home(
        "mv ~/.claude ~/.claude-aside; mkdir ~/.claude; echo EVIL > ~/.claude/settings.json",
        ".claude/settings.json",
    );
}

#[test]
fn the_users_own_git_configuration() {
    changes_home("git config --global core.pager EVIL", ".gitconfig");
}

#[test]
fn services_that_start_with_the_session() {
    changes_home(
        "mkdir -p ~/.config/autostart && echo EVIL > ~/.config/autostart/x.desktop",
        ".config/autostart/x.desktop",
    );
}

#[test]
fn the_policy_of_the_launcher_itself() {
    changes_home(
        "mkdir -p ~/.aegis && echo EVIL > ~/.aegis/config.toml",
        ".aegis/config.toml",
    );
}

/// Nothing of this reaches the host before a person lands it.
#[test]
fn configuration_inside_the_project() {
    let files = [
        ".claude/settings.json",
        ".mcp.json",
        ".vscode/tasks.json",
        ".envrc",
        "AGENTS.md",
    ];
    attack(
        |_| {
            let plant = |file| format!("mkdir -p \"$(dirname {file})\"; echo EVIL > {file}");
            files.map(plant).join("\n")
        },
        |world, _| files.iter().any(|file| world.project_has(file, "EVIL")),
    );
}
