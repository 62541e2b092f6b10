//! The forms in which a view is asked for: flags, options, the background, mount(8).

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use super::{is_mounted, mounted, shell, unmount};
use crate::cli::world::{Ended, Person, World, eventually};

fn view(world: &World) -> String {
    world.at("view").to_str().unwrap().to_owned()
}

/// Mounts in the background with these arguments, and comes back when the view can be used.
fn begin(world: &World, arguments: &[&str]) -> Ended {
    let view = view(world);
    let all = [&["mount", "--daemon"], arguments, &[".", &view]].concat();
    world.aegis(&all)
}

fn end(world: &World) {
    world.aegis(&["unmount", &view(world)]).ok();
    assert!(!is_mounted(world));
}

#[test]
fn a_view_in_the_background_is_usable_when_the_command_returns() {
    for world in World::all() {
        let told = begin(&world, &[]).ok();
        let id = world.only_session();
        assert!(told.stderr.contains(&id), "{}", told.stderr);
        let seen = shell(&world, "cat $VIEW/kept; echo new > $VIEW/new").ok();
        assert_eq!(seen.stdout, "kept\n");
        let listed = world.aegis(&["sessions"]).ok().stdout;
        assert!(listed.contains("running"), "{listed}");
        end(&world);
        // The session is at rest when `unmount` returns.
        world.aegis(&["land", "--yes"]).ok();
        assert_eq!(
            fs::read_to_string(world.project().join("new")).unwrap(),
            "new\n"
        );
        // Once more does no harm.
        let again = world.aegis(&["unmount", &view(&world)]).ok();
        assert!(
            again.stderr.contains("no view is mounted"),
            "{}",
            again.stderr
        );
    }
}

#[test]
fn what_can_not_be_mounted_in_the_background_is_told_at_once() {
    let world = World::of(Person::Ordinary);
    world.write("view/file", "");
    begin(&world, &[]).refused(&["not empty"]);
    assert!(world.sessions().is_empty());
}

#[test]
fn a_read_only_view_shows_no_secret_takes_no_change_and_is_on_record() {
    for world in World::all() {
        world.write("home/project/.env", "KEY=1\n");
        let before = world.fingerprint();
        let copy = world.at("home/audit.jsonl");
        begin(&world, &["--ro", "--audit", copy.to_str().unwrap()]).ok();
        let script =
            "cd $VIEW; cat kept; ! cat .env; ! touch new; ! rm kept; ! chmod 600 kept; ls -a";
        let seen = shell(&world, script).ok();
        assert!(seen.stdout.starts_with("kept\n"), "{seen:#?}");
        assert!(seen.stdout.contains(".env\n"), "{seen:#?}");
        assert!(seen.stderr.contains("Permission denied"), "{seen:#?}");
        assert_eq!(
            seen.stderr.matches("Read-only file system").count(),
            3,
            "{seen:#?}"
        );
        // While it is mounted: each line is there soon after what it tells.
        let has = |words: &[&str]| {
            let lines = fs::read_to_string(&copy).unwrap();
            lines
                .lines()
                .any(|line| words.iter().all(|word| line.contains(word)))
        };
        eventually(|| has(&["\"event\":\"read\"", "kept"]));
        eventually(|| has(&["\"event\":\"refused\"", ".env"]));
        end(&world);
        let lines = fs::read_to_string(&copy).unwrap();
        let audit = world.aegis(&["audit", "--json"]).ok().stdout;
        assert_eq!(lines, audit);
        assert_eq!(
            fs::metadata(&copy).unwrap().permissions().mode() & 0o777,
            0o600
        );
        assert_eq!(world.fingerprint(), before);
        let status = world.aegis(&["status"]).ok().stdout;
        assert!(status.contains("read-only"), "{status}");
    }
}

#[test]
fn a_policy_of_a_file_is_in_force_beside_the_persons_own() {
    let world = World::of(Person::Ordinary);
    let forbid = |name: &str| {
        format!(
            "@id(\"{name}\")\nforbid (principal, action == Action::\"fs.read\", resource) \
             when {{ resource.path == \"{name}\" }};\n"
        )
    };
    world.settings("");
    world.write("home/.aegis/policy.cedar", &forbid("gone"));
    world.write("home/more.cedar", &forbid("kept"));
    let more = world.at("home/more.cedar");
    begin(&world, &["--policy", more.to_str().unwrap()]).ok();
    let seen = shell(&world, "cd $VIEW; ! cat kept; ! cat gone; cat folder/file").ok();
    assert_eq!(seen.stdout, "file\n");
    end(&world);
    world.write("home/project/in.cedar", &forbid("kept"));
    begin(&world, &["--policy", "in.cedar"]).refused(&["lies in the project"]);
    fs::set_permissions(&more, fs::Permissions::from_mode(0o666)).unwrap();
    begin(&world, &["--policy", more.to_str().unwrap()]).refused(&["others can change it"]);
    world.write("home/bad.cedar", "permit (");
    let bad = world.at("home/bad.cedar");
    begin(&world, &["--policy", bad.to_str().unwrap()]).refused(&["policy"]);
    assert_eq!(world.sessions().len(), 1);
}

#[test]
fn a_session_goes_on_in_a_further_view() {
    let world = World::of(Person::Ordinary);
    begin(&world, &["-o", "session=last"]).ok();
    shell(&world, "echo one > $VIEW/one").ok();
    end(&world);
    let id = world.only_session();
    begin(&world, &["--session", &id]).ok();
    let seen = shell(&world, "cat $VIEW/one; echo two > $VIEW/two").ok();
    assert_eq!(seen.stdout, "one\n");
    end(&world);
    begin(&world, &["--session", "last", "--ro"]).ok();
    let seen = shell(&world, "cat $VIEW/two; ! touch $VIEW/three").ok();
    assert_eq!(seen.stdout, "two\n");
    end(&world);
    assert_eq!(world.only_session(), id);
    // In a sandbox too, where it can be changed again.
    let seen = world.aegis(&["resume", "--", "sh", "-c", "echo more >> one; cat one two"]);
    assert_eq!(seen.ok().stdout, "one\nmore\ntwo\n");
    let mut live = mounted(&world);
    let ids = world.sessions().into_iter().map(|session| {
        let name = session.file_name().unwrap();
        name.to_str().unwrap().to_owned()
    });
    let newest = ids.into_iter().find(|other| *other != id).unwrap();
    begin(&world, &["--session", &newest]).refused(&["is not empty"]);
    unmount(&world, &mut live);
}

#[test]
fn options_are_in_force_and_shown() {
    let world = World::of(Person::Ordinary);
    let options = "threads=3,transport=device,noexec,fsname=a\u{20}b";
    begin(&world, &["-o", options]).ok();
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    let view = view(&world);
    let line = mounts.lines().find(|line| line.contains(&view)).unwrap();
    for part in ["a\\040b ", "fuse.aegisfs", "noexec", "nosuid", "nodev"] {
        assert!(line.contains(part), "{line}");
    }
    let live = world.aegis(&["status"]).ok().stdout;
    assert!(
        live.contains("served   over /dev/fuse by 3 threads"),
        "{live}"
    );
    assert!(live.contains("without writeback (not asked for)"), "{live}");
    end(&world);
    let status = world.aegis(&["status", "--json"]).ok().stdout;
    let status: serde_json::Value = serde_json::from_str(&status).unwrap();
    assert_eq!(status["features"]["threads"], 3, "{status}");
    assert_eq!(status["features"]["transport"], "device", "{status}");
    begin(&world, &["-o", "colour=red"]).refused(&["`colour=red` can not be used"]);
}

#[test]
fn allow_other_needs_the_administrators_consent() {
    let world = World::of(Person::Ordinary);
    let consent = fs::read_to_string("/etc/fuse.conf").unwrap_or_default();
    let is_given = consent
        .lines()
        .any(|line| line.trim() == "user_allow_other");
    if world.switched_to().is_none() || is_given {
        return;
    }
    begin(&world, &["-o", "allow_other"]).refused(&["user_allow_other"]);
    assert!(world.sessions().is_empty());
}

/// mount(8) as root, which looks for its helpers in /sbin: here in one of a mount namespace of its own.
#[test]
fn the_systems_own_mount_command_mounts() {
    let world = World::of(Person::Myself);
    if !nix::unistd::Uid::effective().is_root() {
        return;
    }
    let helpers = world.at("sbin");
    fs::create_dir(&helpers).unwrap();
    for name in ["mount.aegisfs", "mount.fuse.aegisfs", "aegis-os"] {
        symlink(world.at("aegis-os"), helpers.join(name)).unwrap();
    }
    let (project, view) = (world.project(), world.at("view"));
    // mount(8) keeps the environment from its helpers.
    let home = format!("home={}", world.at("home/.aegis").display());
    let fstab = format!(
        "{} {} aegisfs rw,noauto,threads=2,x-note=1,{home} 0 0\n",
        project.display(),
        view.display()
    );
    fs::write(world.at("fstab"), fstab).unwrap();
    let by_fstab = format!(
        "mount -T {} {}",
        world.at("fstab").display(),
        view.display()
    );
    let by_type = |kind: &str| {
        let (project, view) = (project.display(), view.display());
        format!("mount -t {kind} -o ro,{home} {project} {view}")
    };
    // The last one goes through the system's own mount.fuse, which looks for the program where a
    // shell does that has no PATH.
    for (index, mount) in [
        by_fstab,
        by_type("aegisfs"),
        by_type("fuse.aegisfs"),
        by_type("fuse.aegis-os"),
    ]
    .into_iter()
    .enumerate()
    {
        let script = format!(
            "set -eu
             {mount}
             grep -q '^{project} {view} fuse.aegisfs' /proc/self/mounts
             cat {view}/kept
             umount {view}
             if grep -q ' {view} ' /proc/self/mounts; then exit 9; fi",
            project = project.display(),
            view = view.display(),
        );
        let ended = Ended::of(private_sbin(&world, &helpers, &script).output().unwrap());
        assert_eq!(
            (ended.status, ended.stdout.as_str()),
            (0, "kept\n"),
            "{mount}: {ended:#?}"
        );
        assert_eq!(world.sessions().len(), index + 1);
        let settled = || {
            let listed = world.aegis(&["sessions"]).ok().stdout;
            !listed.contains("running")
        };
        eventually(settled);
    }
    let refused = format!(
        "mount -t aegisfs -o colour=red {} {}",
        project.display(),
        view.display()
    );
    let ended = Ended::of(private_sbin(&world, &helpers, &refused).output().unwrap());
    assert_eq!(ended.status, 1, "{ended:#?}");
    assert!(ended.stderr.contains("colour=red"), "{ended:#?}");
    let missing = format!("mount -t aegisfs /no/such {}", view.display());
    let ended = Ended::of(private_sbin(&world, &helpers, &missing).output().unwrap());
    assert_eq!(ended.status, 32, "{ended:#?}");
}

/// A script in a mount namespace of its own, where /sbin has our helpers beside the system's.
fn private_sbin(world: &World, helpers: &Path, script: &str) -> Command {
    let script = format!(
        "set -eu
         for tool in /usr/sbin/mount.fuse /usr/sbin/mount.fuse3; do
             [ -e $tool ] && cp $tool {helpers}/ || true
         done
         mount --bind {helpers} /usr/sbin
         {script}",
        helpers = helpers.display(),
    );
    let mut command = world.program("/usr/bin/unshare".as_ref());
    command.args(["--mount", "--propagation", "private", "sh", "-c", &script]);
    command
}
