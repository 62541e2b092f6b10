//! A session that goes on after it has landed.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::fd::AsFd;

use aegis_policies::label::Labels;
use aegisfs::commit::{Approval, Plan, Reason, Reversal, Site};

use super::bed::Bed;
use super::model::Tree;
use super::ops::Op;
use super::tree::dump;

/// Works on the session as it is after a replay; both trees, the session's first.
fn work(bed: &Bed, ops: &[Op]) -> [BTreeMap<String, String>; 2] {
    let tree = Tree { guard: bed.guard() };
    for op in ops {
        tree.run(op).unwrap();
    }
    [names(tree.dump()), names(dump(&bed.project()))]
}

/// Content and names, without times and numbers.
fn names(tree: BTreeMap<String, String>) -> BTreeMap<String, String> {
    tree.into_keys().map(|name| (name, String::new())).collect()
}

/// Lands everything; why what was left was left.
fn land(bed: &Bed) -> Vec<Reason> {
    let (session, project) = (bed.session(), File::open(bed.project()).unwrap());
    let site = Site::new(&session, project.as_fd());
    let plan = Plan::new(&site, bed.changes(), &[], &|_| Labels::NONE).unwrap();
    let frozen = plan.freeze(&site).unwrap();
    let approval = Approval::by_person(frozen.manifest());
    let landed = frozen
        .approve(&approval)
        .unwrap()
        .land(&site, None)
        .unwrap();
    landed.left().map(|(_, reason)| reason.clone()).collect()
}

fn undo(bed: &Bed) {
    let (session, project) = (bed.session(), File::open(bed.project()).unwrap());
    let site = Site::new(&session, project.as_fd());
    let reversal = Reversal::find(&site, None).unwrap();
    reversal.apply(&site, None).unwrap();
}

/// A session that has made and moved things, and landed that.
fn landed() -> Bed {
    let bed = Bed::new();
    fs::create_dir_all(bed.project().join("old/deep")).unwrap();
    for name in ["a", "kept", "old/one", "old/deep/two"] {
        fs::write(bed.project().join(name), name).unwrap();
    }
    let ops = [
        Op::Create("x".into(), 0o644),
        Op::Create("y".into(), 0o644),
        Op::Mkdir("d".into()),
        Op::Create("d/z".into(), 0o644),
        Op::Symlink("y".into(), "link".into()),
        Op::Rename("a".into(), "b".into()),
        Op::Rename("old".into(), "new".into()),
        Op::Create("new/made".into(), 0o644),
    ];
    work(&bed, &ops);
    assert_eq!(land(&bed), []);
    let [session, host] = work(&bed, &[]);
    assert_eq!(session, host);
    bed
}

fn has(bed: &Bed, name: &str) -> bool {
    bed.project().join(name).symlink_metadata().is_ok()
}

/// After the work the session shows what the host has once that has landed, before and after; and
/// taking it back brings back what was there, as something that may land again.
fn lands(ops: &[Op], gone: &[&str], there: &[&str]) {
    let bed = landed();
    let before = names(dump(&bed.project()));
    let [session, _] = work(&bed, ops);
    for _ in 0..2 {
        assert_eq!(land(&bed), []);
        assert_eq!(work(&bed, &[]), [session.clone(), session.clone()]);
        for name in gone {
            assert!(!has(&bed, name), "{name}");
        }
        for name in there.iter().chain(&["y", "kept"]) {
            assert!(has(&bed, name), "{name}");
        }
        undo(&bed);
        assert_eq!(work(&bed, &[]), [session.clone(), before.clone()]);
    }
}

#[test]
fn what_landed_and_is_removed_goes_from_the_host() {
    let unlink = |name: &str| Op::Unlink(name.into());
    lands(&[unlink("x"), unlink("link")], &["x", "link"], &["d/z"]);
    let ops = [unlink("d/z"), Op::Rmdir("d".into())];
    lands(&ops, &["d", "d/z"], &["x"]);
    lands(&[unlink("new/made")], &["new/made"], &["new/one"]);
}

#[test]
fn what_landed_and_is_moved_again_leaves_its_name() {
    let rename = |from: &str, to: &str| Op::Rename(from.into(), to.into());
    lands(&[rename("b", "c")], &["a", "b"], &["c"]);
    lands(&[rename("x", "w")], &["x"], &["w"]);
    lands(&[rename("d", "e")], &["d"], &["e/z"]);
    lands(
        &[rename("new", "newer")],
        &["old", "new"],
        &["newer/one", "newer/deep/two", "newer/made"],
    );
}

#[test]
fn a_name_that_was_moved_twice_moves_a_third_time() {
    let bed = landed();
    for (from, to) in [("new", "newer"), ("newer", "newest")] {
        let [session, _] = work(&bed, &[Op::Rename(from.into(), to.into())]);
        assert_eq!(land(&bed), []);
        assert_eq!(work(&bed, &[]), [session.clone(), session]);
    }
    let two = fs::read_to_string(bed.project().join("newest/deep/two"));
    assert_eq!(two.unwrap(), "old/deep/two");
}

#[test]
fn what_the_host_changed_since_stays() {
    let bed = landed();
    fs::write(bed.project().join("x"), "the host's").unwrap();
    work(&bed, &[Op::Unlink("x".into())]);
    assert_eq!(land(&bed), [Reason::HostChanged]);
    let text = fs::read_to_string(bed.project().join("x"));
    assert_eq!(text.unwrap(), "the host's");
}

#[test]
fn what_the_host_makes_after_the_removal_landed_is_seen() {
    let bed = landed();
    work(&bed, &[Op::Unlink("x".into())]);
    assert_eq!(land(&bed), []);
    fs::write(bed.project().join("x"), "the host's").unwrap();
    let [session, host] = work(&bed, &[]);
    assert_eq!(session, host);
    assert_eq!(land(&bed), []);
    assert!(has(&bed, "x"));
}
