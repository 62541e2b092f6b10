//! Bounds: open files, long names, the end of a run.

use crate::cli::world::{Ended, Person, World};

#[test]
fn processes_inside_may_together_have_more_files_open_than_one() {
    let world = World::of(Person::Ordinary);
    let open = "for name in $(seq 40); do exec {file}<>f$name || exit 1; done";
    let meet = "touch up$one; for turn in $(seq 200); do \
                [ -e up1 -a -e up2 -a -e up3 ] && break; sleep 0.05; done";
    let script = format!(
        "touch $(seq -f f%g 40); for one in 1 2 3; do ({open}; {meet}; ulimit -Sn) & \
         all=\"$all $!\"; done; for each in $all; do wait $each || exit 1; done"
    );
    let aegis = world.at("aegis-os");
    let start = format!(
        "ulimit -Sn 64; exec {} run -- bash -c '{script}'",
        aegis.display()
    );
    let mut command = world.program("bash".as_ref());
    let ended = Ended::of(command.args(["-c", &start]).output().unwrap()).ok();
    assert_eq!(ended.stdout, "64\n".repeat(3), "{}", ended.stderr);
}

#[test]
fn long_names_do_not_fill_the_terminal() {
    let world = World::of(Person::Ordinary);
    let ended = world
        .run(
            "name=$(printf %0250d 0); for level in $(seq 12); do mkdir $name && cd $name; done; \
             touch end; cat /aegis/host/project/.env; true",
        )
        .ok();
    let longest = |text: &str| text.lines().map(str::len).max();
    assert!(longest(&ended.stderr) < Some(1500), "{}", ended.stderr);
    let audit = world.aegis(&["audit"]).ok().stdout;
    assert!(longest(&audit) < Some(1000), "{audit}");
    let json = world.aegis(&["audit", "--json"]).ok().stdout;
    assert!(longest(&json) > Some(3000));
}

#[test]
fn a_port_of_this_machine_is_explained() {
    let world = World::of(Person::Ordinary);
    let ended = world
        .aegis(&["run", "--allow", "localhost:7", "--", "true"])
        .ok();
    assert!(ended.stderr.contains("--noproxy"), "{}", ended.stderr);
    assert!(!world.run("true").ok().stderr.contains("--noproxy"));
}
