//! Approving one's own work, or changing it after a person looked.

use std::time::Duration;

use super::attack;
use super::world::soon;

#[test]
fn ending_a_neighbour() {
    attack(
        |world| format!("kill -KILL {}", world.victim()),
        |world, _| !world.victim_lives(),
    );
}

#[test]
fn changing_the_project_after_the_session() {
    attack(
        |_| {
            "setsid sh -c 'sleep 1; echo EVIL >> keep.txt' > /dev/null 2>&1 < /dev/null &
             sleep 0.1"
                .to_owned()
        },
        |world, _| {
            soon(Duration::from_secs(3), || {
                let shown = world.env.aegis(&["diff"]).output();
                world.project_has("keep.txt", "EVIL") || shown.contains("EVIL")
            })
        },
    );
}

#[test]
fn landing_ones_own_work() {
    attack(
        |_| {
            "echo EVIL >> keep.txt
             for it in aegis-os /aegis/bin/aegis-os /proc/1/exe aos; do
               $it land --yes; $it commit; done 2>&1 < /dev/null"
                .to_owned()
        },
        |world, _| world.project_has("keep.txt", "EVIL"),
    );
}

/// What a person sees is what is there: control characters are shown, not obeyed.
#[test]
fn a_diff_that_repaints_the_terminal() {
    let world = super::World::new();
    let hidden = "printf 'good\\033[2K\\033[1A\\rEVIL\\n' >> keep.txt
                  echo x > $'name\\033[2J\\nwith newline'";
    let seen = world.enforced(hidden);
    assert!(seen.stdout.contains("STARTED"), "{}", seen.output());
    for command in [&["diff"][..], &["diff", "--stat"], &["status"], &["land"]] {
        let shown = world.env.aegis(command).output();
        assert!(
            !shown.contains('\u{1b}') && !shown.contains('\r'),
            "{command:?}: {shown:?}"
        );
    }
    assert!(
        world.env.aegis(&["diff"]).ok().stdout.contains("EVIL"),
        "the diff hides the change"
    );
}
