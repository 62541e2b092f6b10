//! Three-way merges: in a landing, and against `git merge-file` as the reference.

use std::fs;
use std::process::Command;

use aegisfs::commit::{Done, Reason};
use aegisfs::merge::{Clash, Limits, merge_lines};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::env::{Env, write};

/// How many merges are compared.
const CASES: u32 = 300;

const BASE: &str = "one\ntwo\nthree\nfour\nfive\nsix\n";

#[test]
fn different_lines_are_merged() {
    let env = Env::new(|root| write(&root.join("file"), BASE));
    write(&env.project.join("file"), BASE.replace("one", "ONE"));
    write(&env.agent.join("file"), BASE.replace("six", "SIX"));
    let landed = env.land();
    assert_eq!(landed.results.first().unwrap().result, Ok(Done::Merged));
    let merged = fs::read_to_string(env.project.join("file")).unwrap();
    assert_eq!(merged, BASE.replace("one", "ONE").replace("six", "SIX"));
    assert!(
        env.plan().items().is_empty(),
        "the agent changed nothing since"
    );

    // The next change of the agent's starts from what it has, and keeps the host's line.
    write(&env.agent.join("file"), BASE.replace("six", "SEVEN"));
    env.land();
    let merged = fs::read_to_string(env.project.join("file")).unwrap();
    assert_eq!(merged, BASE.replace("one", "ONE").replace("six", "SEVEN"));
}

#[test]
fn the_same_line_is_a_conflict_and_stays() {
    let env = Env::new(|root| write(&root.join("file"), BASE));
    write(&env.project.join("file"), BASE.replace("one", "HOST"));
    write(&env.agent.join("file"), BASE.replace("one", "AGENT"));
    let landed = env.land();
    assert_eq!(
        landed.left().next().unwrap().1,
        &Reason::Clash(Clash::Overlap)
    );
    assert_eq!(
        fs::read_to_string(env.project.join("file")).unwrap(),
        BASE.replace("one", "HOST")
    );
}

#[test]
fn without_the_common_version_there_is_no_merge() {
    let env = Env::new(|root| write(&root.join("file"), BASE));
    write(&env.project.join("file"), BASE.replace("one", "ONE"));
    write(&env.agent.join("file"), BASE.replace("six", "SIX"));
    for entry in fs::read_dir(env.session.base()).unwrap() {
        fs::remove_file(entry.unwrap().path()).unwrap();
    }
    let landed = env.land();
    assert_eq!(landed.left().next().unwrap().1, &Reason::NoBase);
}

#[test]
fn what_is_not_text_is_a_conflict() {
    let env = Env::new(|root| write(&root.join("file"), b"\0one"));
    write(&env.project.join("file"), b"\0two");
    write(&env.agent.join("file"), b"\0three");
    assert_eq!(
        env.land().left().next().unwrap().1,
        &Reason::Clash(Clash::Binary)
    );
}

/// Lines from a small alphabet collide often.
fn lines() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(0_u8..6, 0..30)
}

/// Changes some lines, drops some, adds some.
fn edit(base: &[u8], edits: &[(usize, u8, u8)]) -> Vec<u8> {
    let mut lines = base.to_vec();
    for (at, kind, line) in edits {
        let at = at % (lines.len() + 1);
        match kind {
            0 => lines.insert(at, *line),
            1 if at < lines.len() => drop(lines.remove(at)),
            _ if at < lines.len() => lines[at] = *line,
            _ => {}
        }
    }
    lines
}

fn text(lines: &[u8], ending: &str, is_terminated: bool) -> Vec<u8> {
    let mut text = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        text.extend(format!("line {line}").bytes());
        if is_terminated || index + 1 < lines.len() {
            text.extend(ending.bytes());
        }
    }
    text
}

/// What `git merge-file` says; `None` for a conflict.
fn by_git(folder: &std::path::Path, sides: [&[u8]; 3]) -> Option<Vec<u8>> {
    let names = ["host", "base", "agent"].map(|name| folder.join(name));
    for (name, side) in names.iter().zip(sides) {
        fs::write(name, side).unwrap();
    }
    let output = Command::new("git")
        .arg("merge-file")
        .arg("-p")
        .args(&names)
        .output()
        .unwrap();
    output.status.success().then_some(output.stdout)
}

/// Both clean: the same bytes. Never clean where git sees a conflict.
#[test]
fn merges_agree_with_git() {
    if Command::new("git").arg("--version").output().is_err() {
        return;
    }
    let folder = tempfile::TempDir::new().unwrap();
    let edits = || prop::collection::vec((0_usize..30, 0_u8..3, 6_u8..9), 0..4);
    let cases = (lines(), edits(), edits(), any::<bool>(), any::<bool>());
    let mut runner = TestRunner::new(Config {
        cases: CASES,
        failure_persistence: None,
        ..Config::default()
    });
    let mut clean = 0;
    let counted = std::cell::RefCell::new(&mut clean);
    runner
        .run(&cases, |(base, host, agent, dos, terminated)| {
            let ending = if dos { "\r\n" } else { "\n" };
            let [base, host, agent] = [base.clone(), edit(&base, &host), edit(&base, &agent)]
                .map(|lines| text(&lines, ending, terminated));
            let ours = merge_lines(&base, &host, &agent, &Limits::default());
            let git = by_git(folder.path(), [&host, &base, &agent]);
            if let Ok(ours) = ours {
                **counted.borrow_mut() += 1;
                prop_assert_eq!(Some(ours), git);
            }
            Ok(())
        })
        .unwrap();
    assert!(clean > 50, "only {clean} of the cases were clean");
}

/// Edits of real source files, many of which repeat or move lines and so can be placed in several
/// ways: as above, and the two agree nearly always.
#[test]
fn merges_of_source_files_agree_with_git() {
    if Command::new("git").arg("--version").output().is_err() {
        return;
    }
    let folder = tempfile::TempDir::new().unwrap();
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let sources: Vec<Vec<u8>> = super::env::names(&root)
        .iter()
        .filter_map(|name| fs::read(root.join(name.as_path())).ok())
        .collect();
    let mut random = Random(7);
    let (mut cases, mut agreed, mut clean) = (0, 0, 0_u32);
    while cases < CASES {
        let base = &sources[random.below(sources.len())];
        let [host, agent] = [(); 2].map(|()| random.edit(base));
        let ours = merge_lines(base, &host, &agent, &Limits::default()).ok();
        let git = by_git(folder.path(), [&host, base, &agent]);
        assert!(
            ours.is_none() || ours == git,
            "clean, and not as git has it"
        );
        cases += 1;
        clean += u32::from(git.is_some());
        agreed += u32::from(ours == git);
    }
    println!("{agreed} of {cases} agree; {clean} are clean for git");
    assert!(
        clean > 100 && agreed * 100 >= cases * 93,
        "{agreed} of {cases}, {clean} clean"
    );
}

/// A small generator with a state of its own, so that every run is the same.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % end
    }

    /// Changes, repeats, moves or drops runs of lines.
    fn edit(&mut self, base: &[u8]) -> Vec<u8> {
        let mut lines: Vec<Vec<u8>> = base
            .split_inclusive(|byte| *byte == b'\n')
            .map(<[u8]>::to_vec)
            .collect();
        for _ in 0..=self.below(4) {
            let start = self.below(lines.len());
            let end = (start + 1 + self.below(4)).min(lines.len());
            let run: Vec<Vec<u8>> = lines[start..end].to_vec();
            match self.below(4) {
                0 => drop(lines.drain(start..end)),
                1 => drop(lines.splice(start..start, run)),
                2 => {
                    let to = self.below(lines.len());
                    drop(lines.splice(to..to, run));
                }
                _ => lines[start] = format!("changed {}\n", self.below(1000)).into_bytes(),
            }
            if lines.is_empty() {
                lines.push(b"left\n".to_vec());
            }
        }
        lines.concat()
    }
}
