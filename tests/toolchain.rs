//! A Rust toolchain in a test's own home, at the place where rustup keeps it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::TestEnv;

/// What a build needs of a toolchain; documentation and sources are left out.
const PARTS: [&str; 4] = ["bin/cargo", "bin/rustc", "lib", "libexec"];

/// Puts the toolchain that builds this suite into `~/.rustup`, with `cargo` and `rustc` in
/// `~/.cargo/bin`.
///
/// The files are hard links where the file system allows it, so this costs no space.
///
/// # Panics
/// When the toolchain can not be found or copied.
pub fn install(env: &TestEnv) {
    let source = sysroot();
    let rustup = env.home().join(".rustup");
    let target = rustup.join("toolchains/tested");
    for part in PARTS {
        if source.join(part).exists() {
            clone(&source.join(part), &target.join(part));
        }
    }
    let cargo = env.home().join(".cargo");
    fs::create_dir_all(cargo.join("bin")).unwrap();
    for program in ["cargo", "rustc"] {
        let original = Path::new("../../.rustup/toolchains/tested/bin").join(program);
        std::os::unix::fs::symlink(original, cargo.join("bin").join(program)).unwrap();
    }
    for path in [&cargo, &cargo.join("bin"), &rustup] {
        env.user.own(path);
    }
}

fn sysroot() -> PathBuf {
    let output = Command::new("rustc")
        .args(["--print", "sysroot"])
        .output()
        .unwrap();
    PathBuf::from(String::from_utf8(output.stdout).unwrap().trim())
}

fn clone(source: &Path, target: &Path) {
    fs::create_dir_all(target.parent().unwrap()).unwrap();
    if source.is_dir() {
        fs::create_dir_all(target).unwrap();
        for entry in fs::read_dir(source).unwrap() {
            let name = entry.unwrap().file_name();
            clone(&source.join(&name), &target.join(&name));
        }
    } else if fs::hard_link(source, target).is_err() {
        fs::copy(source, target).unwrap();
    }
}
