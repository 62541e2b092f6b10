//! How long a session takes to start and end, against bubblewrap alone with similar mounts.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::corpus::{Corpus, Tree};
use crate::pairs::{Pairs, Unit};
use crate::person::Person;
use crate::target::{Target, aegis_os};
use crate::{Options, Outcome, note};

/// Pairs of `bwrap ... true` and `aegis-os run -- true`.
pub(crate) fn pairs(corpus: &Corpus, options: &Options) -> Pairs {
    let mut pairs = Pairs::new(Unit::Time);
    if let Err(error) = fill(&mut pairs, corpus, options.rounds * 5) {
        note(&format!("session start failed: {error}"));
    }
    pairs
}

fn fill(pairs: &mut Pairs, corpus: &Corpus, rounds: usize) -> Outcome<()> {
    let scratch = corpus.scratch()?;
    let project = scratch.join("home/project");
    fs::create_dir_all(&project)?;
    fs::write(project.join("file"), "content\n")?;
    fs::copy(aegis_os(), scratch.join("aegis-os"))?;
    let owner = corpus.person();
    for path in [
        &scratch,
        &scratch.join("home"),
        &project,
        &project.join("file"),
    ] {
        owner.owns(path)?;
    }
    fs::set_permissions(scratch.join("aegis-os"), fs::Permissions::from_mode(0o755))?;
    // The first of each warms the caches.
    let _ = (
        once(&bare(&project), &scratch, owner)?,
        once(&ours(&scratch), &scratch, owner)?,
    );
    for _ in 0..rounds {
        let reference = once(&bare(&project), &scratch, owner)?;
        pairs.add(reference, once(&ours(&scratch), &scratch, owner)?);
    }
    Ok(fs::remove_dir_all(scratch)?)
}

fn bare(project: &Path) -> Vec<String> {
    let project = project.display();
    let masks = ["/home", "/root", "/run", "/var", "/tmp", "/mnt", "/media"];
    let masks: Vec<String> = masks.iter().map(|mask| format!("--tmpfs {mask}")).collect();
    let line = format!(
        "bwrap --unshare-all --die-with-parent --ro-bind / / --dev /dev --proc /proc {} \
         --bind {project} {project} --chdir {project} true",
        masks.join(" ")
    );
    line.split_whitespace().map(str::to_owned).collect()
}

fn ours(scratch: &Path) -> Vec<String> {
    let program = scratch.join("aegis-os").display().to_string();
    [program.as_str(), "run", "--", "true"]
        .map(str::to_owned)
        .to_vec()
}

fn once(line: &[String], scratch: &Path, person: Person) -> Outcome<u64> {
    let (program, arguments) = line.split_first().ok_or("an empty command")?;
    let mut command = Command::new(program);
    command
        .args(arguments)
        .current_dir(scratch.join("home/project"))
        .env("HOME", scratch.join("home"))
        .env("AEGIS_HOME", scratch.join("home/.aegis"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    person.takes(&mut command);
    let started = Instant::now();
    let status = command.status()?;
    let time = nanoseconds(started.elapsed());
    if status.success() {
        Ok(time)
    } else {
        Err(format!("{line:?}: {status}").into())
    }
}

/// How long each file system takes until its view is there; there is no native counterpart.
pub(crate) fn mounts(corpus: &Corpus, targets: &[Target], rounds: usize) -> Vec<Pairs> {
    let mut rows = vec![Pairs::new(Unit::Time); targets.len()];
    for _ in 0..rounds * 5 {
        for (target, pairs) in targets.iter().zip(&mut rows) {
            match mounted_once(*target, corpus) {
                Ok(time) => pairs.add(0, time),
                Err(error) => note(&format!("{}: {error}", target.name())),
            }
        }
    }
    rows
}

fn mounted_once(target: Target, corpus: &Corpus) -> Outcome<u64> {
    let scratch = corpus.scratch()?;
    let mounted = target.mount(corpus, &corpus.tree(Tree::Repository), &scratch)?;
    let time = nanoseconds(mounted.came_up());
    drop(mounted);
    fs::remove_dir_all(scratch)?;
    Ok(time)
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
