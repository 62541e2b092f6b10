//! Attacks: each runs twice. Bare it has to succeed, or it shows nothing; in the sandbox it has to
//! fail, in a session that did start.

mod approval;
mod credentials;
mod egress;
mod escape;
mod repository;
mod tampering;
mod world;

use aegis_tests::Finished;
use world::World;

/// Runs the script that `script` makes bare and enforced; `bypassed` looks for the damage.
#[track_caller]
fn attack(script: impl Fn(&World) -> String, bypassed: impl Fn(&World, &Finished) -> bool) {
    let (succeeded, seen) = bare(&script, &bypassed);
    assert!(succeeded, "bare, the attack fails too: {}", seen.output());
    enforced(&script, &bypassed);
}

/// The same for what a kernel may be built or configured without.
#[track_caller]
fn attack_where_the_kernel_has_it(
    script: impl Fn(&World) -> String,
    bypassed: impl Fn(&World, &Finished) -> bool,
) {
    if !bare(&script, &bypassed).0 {
        println!("this kernel refuses it to everybody: only the enforced half is shown");
    }
    enforced(&script, &bypassed);
}

#[track_caller]
fn bare(
    script: &impl Fn(&World) -> String,
    bypassed: &impl Fn(&World, &Finished) -> bool,
) -> (bool, Finished) {
    let world = World::new();
    let seen = world.bare(&script(&world));
    assert!(seen.stdout.contains("STARTED"), "{}", seen.output());
    (bypassed(&world, &seen), seen)
}

#[track_caller]
fn enforced(script: &impl Fn(&World) -> String, bypassed: &impl Fn(&World, &Finished) -> bool) {
    let world = World::new();
    let seen = world.enforced(&script(&world));
    assert!(
        seen.stdout.contains("STARTED"),
        "the session did not start: {}",
        seen.output()
    );
    assert!(
        !bypassed(&world, &seen),
        "the attack succeeded: {}",
        seen.output()
    );
}
