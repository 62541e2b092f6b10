//! `aegis-os mount`: the same view without a sandbox.

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use aegis_tests::{TestEnv, tree};

/// A mount that is taken down whatever the test does.
struct Mounted<'a> {
    env: &'a TestEnv,
    server: Child,
}

impl<'a> Mounted<'a> {
    fn new(env: &'a TestEnv) -> Self {
        let _ = env.sh("mkdir -p ~/view").ok();
        let mut command = env.command(env.binary());
        command
            .arg("mount")
            .arg(env.project())
            .arg(env.home().join("view"));
        let server = command.stdin(Stdio::null()).spawn().unwrap();
        let mounted = Self { env, server };
        let started = Instant::now();
        while !mounted.is_up() {
            assert!(
                started.elapsed() < Duration::from_secs(60),
                "the view does not come up"
            );
            std::thread::sleep(Duration::from_millis(20));
        }
        mounted
    }

    fn is_up(&self) -> bool {
        let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
        mounts.contains(self.env.home().join("view").to_str().unwrap())
    }
}

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        let _ = self
            .env
            .sh("fusermount3 -u ~/view || fusermount3 -uz ~/view");
        let started = Instant::now();
        while started.elapsed() < Duration::from_secs(10) {
            if self.server.try_wait().unwrap().is_some() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

#[test]
fn the_view_is_the_project_until_it_is_written_to() {
    let env = TestEnv::with_repository();
    let before = tree::read(env.project(), &[]);
    let script = "cd ~/view && git status --porcelain && diff -r . ~/src/project
        echo more >> keep.txt && mkdir d && mv README.md d/ && ls && cat keep.txt";
    {
        let mounted = Mounted::new(&env);
        let seen = env.sh(script).ok();
        assert!(seen.stdout.contains("keep\nmore"), "{}", seen.output());
        drop(mounted);
    }
    tree::assert_same(&tree::read(env.project(), &[]), &before);
    let shown = env.aegis(&["diff"]).ok().stdout;
    assert!(shown.contains("+more"), "{shown}");
    env.land();
    assert_eq!(env.read("keep.txt"), "keep\nmore\n");
    assert!(env.project().join("d/README.md").exists());
}
