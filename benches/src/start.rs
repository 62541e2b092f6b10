//! How long a session takes to start and end, against bubblewrap alone with similar mounts.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::corpus::Corpus;
use crate::pairs::Pairs;
use crate::target::aegis_os;
use crate::{Options, Outcome, note};

/// The user that sessions run as when root measures; the set-up makes it.
const ORDINARY: &str = "aegis-test";

/// Pairs of `bwrap ... true` and `aegis-os run -- true`.
pub(crate) fn pairs(corpus: &Corpus, options: &Options) -> Pairs {
    let mut pairs = Pairs::default();
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
    let owner = ordinary()?;
    for path in [
        &scratch,
        &scratch.join("home"),
        &project,
        &project.join("file"),
    ] {
        std::os::unix::fs::chown(path, Some(owner.0), Some(owner.1))?;
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

fn once(line: &[String], scratch: &Path, (uid, gid): (u32, u32)) -> Outcome<Duration> {
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
    if fs::metadata("/proc/self")?.uid() == 0 {
        command.uid(uid).gid(gid);
    }
    let started = Instant::now();
    let status = command.status()?;
    let time = started.elapsed();
    if status.success() {
        Ok(time)
    } else {
        Err(format!("{line:?}: {status}").into())
    }
}

/// The ids to run sessions as: whoever measures, or the ordinary user when that is root.
fn ordinary() -> Outcome<(u32, u32)> {
    let myself = fs::metadata("/proc/self")?;
    if myself.uid() != 0 {
        return Ok((myself.uid(), myself.gid()));
    }
    let users = fs::read_to_string("/etc/passwd")?;
    let line = users
        .lines()
        .find(|line| line.starts_with(&format!("{ORDINARY}:")));
    let fields: Vec<&str> = line
        .ok_or("the user aegis-test is missing")?
        .split(':')
        .collect();
    match fields.as_slice() {
        [_, _, uid, gid, ..] => Ok((uid.parse()?, gid.parse()?)),
        _ => Err("the password file can not be understood".into()),
    }
}
