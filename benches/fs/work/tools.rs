//! Work that people's own tools do.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::Outcome;

/// `git` with nothing of the person's own, and nothing that runs at an unforeseen moment.
fn git(at: &Path, arguments: &[&str]) -> Outcome<Vec<u8>> {
    let mut command = Command::new("git");
    command
        .args(["-c", "safe.directory=*", "-c", "core.fsmonitor=false"])
        .args(["-c", "gc.auto=0", "-c", "maintenance.auto=false"])
        .args([
            "-c",
            "user.name=bench",
            "-c",
            "user.email=bench@example.org",
        ])
        .args(arguments)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .current_dir(at);
    output(&mut command)
}

pub(super) fn status(at: &Path) -> Outcome<u64> {
    let said = git(at, &["--no-optional-locks", "status", "--porcelain"])?;
    Ok(said.len() as u64)
}

/// `rg` as agents use it; `grep -r` where it is not installed.
pub(super) fn search(at: &Path) -> Outcome<u64> {
    let mut command = match Command::new("rg").arg("--version").output() {
        Ok(_) => {
            let mut command = Command::new("rg");
            command.args(["-c", "--no-ignore", "-j2", "NEEDLE", "."]);
            command
        }
        Err(_) => {
            let mut command = Command::new("grep");
            command.args(["-rcF", "--exclude-dir=.git", "NEEDLE", "."]);
            command
        }
    };
    let said = output(command.current_dir(at))?;
    let hits = String::from_utf8_lossy(&said);
    Ok(hits.lines().filter(|line| !line.ends_with(":0")).count() as u64)
}

pub(super) fn unpack(archive: &Path, into: &Path) -> Outcome<u64> {
    fs::create_dir(into)?;
    output(
        Command::new("tar")
            .args(["--no-same-owner", "-xf"])
            .arg(archive)
            .arg("-C")
            .arg(into),
    )?;
    Ok(0)
}

pub(super) fn remove_all(folder: &Path) -> Outcome<u64> {
    output(Command::new("rm").arg("-rf").arg(folder))?;
    Ok(0)
}

pub(super) fn sqlite(database: &Path, mode: &str) -> Outcome<u64> {
    let mut script = format!(
        "pragma journal_mode={mode};\npragma synchronous=full;\n\
         create table t(a integer primary key, b text);\n"
    );
    for _ in 0..300 {
        script.push_str("insert into t(b) values(hex(zeroblob(100)));\n");
    }
    script.push_str("select count(*) from t;\n");
    let mut child = Command::new("sqlite3")
        .arg(database)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(script.as_bytes())?;
    }
    let said = child.wait_with_output()?;
    let text = String::from_utf8(said.stdout)?;
    Ok(text.lines().last().ok_or("sqlite3 said nothing")?.parse()?)
}

pub(super) fn make(at: &Path) -> Outcome<u64> {
    output(Command::new("make").arg("-s").current_dir(at))?;
    Ok(0)
}

pub(super) fn cargo(at: &Path) -> Outcome<u64> {
    let target = at.join("target");
    output(
        Command::new("cargo")
            .args(["build", "-q", "--offline"])
            .env("CARGO_TARGET_DIR", target)
            .env_remove("RUSTC_WRAPPER")
            .current_dir(at),
    )?;
    Ok(0)
}

pub(super) fn git_read(at: &Path) -> Outcome<u64> {
    git(at, &["status", "--porcelain"])?;
    git(at, &["log", "--stat", "-3", "--oneline"])?;
    git(at, &["diff"])?;
    Ok(0)
}

pub(super) fn git_commit(at: &Path) -> Outcome<u64> {
    let mut file = OpenOptions::new().append(true).open(at.join("src/s001"))?;
    file.write_all(b"an edit\n")?;
    drop(file);
    git(at, &["add", "-A"])?;
    git(at, &["commit", "-q", "-m", "edit"])?;
    let said = git(at, &["diff", "--stat", "HEAD~1"])?;
    Ok(said.len() as u64)
}

fn output(command: &mut Command) -> Outcome<Vec<u8>> {
    let output = command.stdin(Stdio::null()).output()?;
    if output.status.success() {
        Ok(output.stdout)
    } else {
        Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr)).into())
    }
}
