//! The list of changes says what the session did: applied to the host's tree it gives the shadow.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use aegis_policies::journal::NodeKind;
use aegisfs::overlay::changes::{Change, Content};
use proptest::prelude::*;

use super::bed::Bed;
use super::model::Tree;
use super::ops;
use super::soak::soak;
use super::tree::dump;

proptest! {
    #![proptest_config(ProptestConfig { cases: soak(80), failure_persistence: None, ..Default::default() })]

    #[test]
    fn applied_to_the_host_they_give_the_shadow(
        ops in proptest::collection::vec(ops::operation(), 1..80),
    ) {
        let bed = Bed::furnished();
        let tree = Tree { guard: bed.guard() };
        for op in &ops {
            let _ = tree.run(op);
        }
        let changes = bed.changes();
        let mut host = plain(dump(&bed.project()));
        for change in &changes {
            prop_assert!(change.before.is_some() || change.after.is_some());
            prop_assert_eq!(host.contains_key(&name(change)), change.before.is_some());
        }
        for change in &changes {
            match after(change, &bed.project()) {
                Some(text) => host.insert(name(change), text),
                None => host.remove(&name(change)),
            };
        }
        prop_assert_eq!(host, plain(tree.dump()), "{:#?}", changes);
    }
}

#[test]
fn what_came_and_went_is_not_listed() {
    let bed = Bed::furnished();
    let tree = Tree { guard: bed.guard() };
    for op in [
        ops::Op::Create("n".into(), 0o644),
        ops::Op::Rename("n".into(), "a/n".into()),
        ops::Op::Unlink("a/n".into()),
        ops::Op::Rename("a".into(), "m".into()),
        ops::Op::Rename("m".into(), "a".into()),
        ops::Op::Utimes("x".into(), 5),
    ] {
        tree.run(&op).unwrap();
    }
    assert_eq!(bed.changes(), []);
}

#[test]
fn a_removed_directory_does_not_list_what_the_host_made_later() {
    let bed = Bed::furnished();
    let tree = Tree { guard: bed.guard() };
    for path in ["d/y", "d/z", "d/linked"] {
        tree.run(&ops::Op::Unlink(path.into())).unwrap();
    }
    tree.run(&ops::Op::Rmdir("d".into())).unwrap();
    fs::write(bed.project().join("d/later"), "later").unwrap();
    let names: Vec<_> = bed.changes().iter().map(name).collect();
    assert_eq!(names, ["d", "d/linked", "d/y", "d/z"]);
}

#[test]
fn a_moved_directory_lists_what_it_brings_along() {
    let bed = Bed::furnished();
    let tree = Tree { guard: bed.guard() };
    tree.run(&ops::Op::Rename("a".into(), "m".into())).unwrap();
    tree.run(&ops::Op::Write("m/b/x".into(), 0, b"mine".to_vec()))
        .unwrap();
    let changes = bed.changes();
    let find = |wanted: &str| {
        changes
            .iter()
            .find(|change| name(change) == wanted)
            .unwrap()
    };
    assert_eq!(
        find("m/b/x").moved_from.as_ref().unwrap().as_bytes(),
        b"a/b/x"
    );
    let baseline = find("a/b/x").before.as_ref().unwrap();
    assert!(baseline.sha256.is_some() && find("a/b/x").after.is_none());
    let untouched = find("m/y").after.as_ref().unwrap();
    assert!(matches!(&untouched.content, Some(Content::Host(path)) if path.as_bytes() == b"a/y"));
    assert!(find("m/y").before.is_none());
}

fn name(change: &Change) -> String {
    String::from_utf8(change.path.as_bytes().to_vec()).unwrap()
}

/// What a change makes of its name, as [`plain`] shows it.
fn after(change: &Change, project: &Path) -> Option<String> {
    let after = change.after.as_ref()?;
    let mode = after.mode;
    Some(match &after.kind {
        NodeKind::Directory => format!("dir {mode:o}"),
        NodeKind::Symlink(target) => {
            format!("link {:?}", target.escape_ascii().to_string())
        }
        NodeKind::File => {
            let bytes = match after.content.as_ref().unwrap() {
                Content::Shadow(path) => fs::read(path).unwrap(),
                Content::Host(path) => fs::read(project.join(path.as_path())).unwrap(),
            };
            format!("file {mode:o} {}", bytes.escape_ascii())
        }
        NodeKind::Fifo => format!("fifo {mode:o} 0"),
        NodeKind::Socket => format!("socket {mode:o} 0"),
        NodeKind::Character(number) => format!("character {mode:o} {number:x}"),
        NodeKind::Block(number) => format!("block {mode:o} {number:x}"),
    })
}

/// A dump without what a list of changes does not say: which names share an inode.
fn plain(dump: BTreeMap<String, String>) -> BTreeMap<String, String> {
    let shorten = |text: String| match text.splitn(5, ' ').collect::<Vec<_>>()[..] {
        ["file", mode, _, _, content] => format!("file {mode} {content}"),
        _ => text,
    };
    dump.into_iter()
        .map(|(name, text)| (name, shorten(text)))
        .collect()
}
