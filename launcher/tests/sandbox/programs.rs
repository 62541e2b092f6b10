//! Commands from places that the sandbox hides, and the programs that people use inside.

use std::fs;
use std::os::unix::fs::symlink;

use aegis_launcher::sandbox::SandboxError;

use super::body::{Body, as_both_users, open_to_all};

#[test]
fn a_command_from_a_hidden_place_is_shown_alone() {
    as_both_users(
        "sandbox::programs::a_command_from_a_hidden_place_is_shown_alone",
        || {
            let mut body = Body::new();
            let package = body.outside().join("lib/node_modules/@agent/tool");
            fs::create_dir_all(package.join("bin")).unwrap();
            fs::create_dir_all(body.outside().join("bin")).unwrap();
            fs::write(body.outside().join("lib/node_modules/secret"), "x").unwrap();
            fs::write(package.join("data"), "from the package\n").unwrap();
            let script = package.join("bin/tool.sh");
            fs::write(&script, "#!/usr/bin/env sh\ncat \"$(dirname \"$(realpath \"$0\")\")/../data\" >out; ls ${0%/bin/*}/lib/node_modules >>out\n").unwrap();
            open_to_all(&script);
            let link = body.outside().join("bin/tool");
            symlink("../lib/node_modules/@agent/tool/bin/tool.sh", &link).unwrap();
            body.request.command = vec![link.into()];
            assert_eq!(body.wait(), 0);
            let out = fs::read_to_string(body.request.project.join("out")).unwrap();
            assert_eq!(out, "from the package\n@agent\n");
        },
    );
}

#[test]
fn a_local_package_is_shown_with_its_neighbours() {
    as_both_users(
        "sandbox::programs::a_local_package_is_shown_with_its_neighbours",
        || {
            let mut body = Body::new();
            let modules = body.outside().join("node_modules");
            fs::create_dir_all(modules.join("tool")).unwrap();
            fs::create_dir_all(modules.join(".bin")).unwrap();
            fs::write(
                modules.join("tool/run.sh"),
                "#!/bin/sh\nls ${0%/.bin/*} >out\n",
            )
            .unwrap();
            open_to_all(&modules.join("tool/run.sh"));
            symlink("../tool/run.sh", modules.join(".bin/tool")).unwrap();
            body.request.command = vec![modules.join(".bin/tool").into()];
            assert_eq!(body.wait(), 0);
            assert_eq!(
                fs::read_to_string(body.request.project.join("out")).unwrap(),
                "tool\n"
            );
        },
    );
}

#[test]
fn a_command_among_the_sessions_is_refused() {
    let mut body = Body::new();
    let sessions = body.outside().join("sessions");
    fs::create_dir(&sessions).unwrap();
    fs::write(sessions.join("tool"), "#!/bin/sh\n").unwrap();
    open_to_all(&sessions.join("tool"));
    body.request.hidden = vec![sessions.clone()];
    body.request.command = vec![sessions.join("tool").into()];
    assert!(matches!(body.plan(), Err(SandboxError::CommandHidden(..))));
}

#[test]
fn a_command_that_is_nowhere_is_refused_before_anything_is_built() {
    let mut body = Body::new();
    body.request.command = vec!["no-such-command".into()];
    assert!(matches!(body.plan(), Err(SandboxError::CommandNotFound(_))));
    body.request.command = vec![];
    assert!(matches!(body.plan(), Err(SandboxError::NoCommand)));
}

#[test]
fn ordinary_programs_work() {
    as_both_users("sandbox::programs::ordinary_programs_work", || {
        let ended = Body::new().run(
            "set -e\n\
             /usr/bin/python3 -c 'import asyncio, threading, subprocess, multiprocessing as m\n\
             async def main(): await (await asyncio.create_subprocess_exec(\"true\")).wait()\n\
             asyncio.run(main())\n\
             threading.Thread(target=print, args=(\"thread\",)).start()\n\
             q = m.Queue(); p = m.Process(target=q.put, args=(1,)); p.start(); print(q.get()); p.join()'\n\
             node -e 'new (require(\"worker_threads\").Worker)(\"console.log(1+1)\", {eval: true})'\n\
             bash -c 'sleep 0 & wait $!; echo <(true) | grep -c fd'\n\
             echo 'int main(void){return 7;}' >t.c; cc t.c -o t; ./t || echo $?\n",
        );
        assert_eq!(
            (ended.code, ended.said.as_str()),
            (0, "thread\n1\n2\n1\n7\n")
        );
    });
}

#[test]
fn git_is_the_shim_and_works() {
    as_both_users("sandbox::programs::git_is_the_shim_and_works", || {
        let ended = Body::new().run(
            "set -e; command -v git; command -v aos\n\
             export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b\n\
             git init -q -b main .; printf '#!/bin/sh\\ntouch ran\\n' >.git/hooks/pre-commit\n\
             chmod +x .git/hooks/pre-commit; cp .git/hooks/pre-commit mon\n\
             git config core.fsmonitor ./mon; echo x >f; git add f; git commit -q -m one\n\
             git status --porcelain; git log --oneline | wc -l; ls ran 2>&1 || true\n\
             GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=core.fsmonitor GIT_CONFIG_VALUE_0=./mon git \
             --git-dir=.git -c core.fsmonitor=./mon status >/dev/null; ls ran 2>&1 || true\n\
             git init -q --bare other.git; git --git-dir=other.git rev-parse --is-bare-repository\n\
             git nonsense 2>/dev/null || echo $?; aos status | head -1",
        );
        assert!(
            ended.said.starts_with("/aegis/bin/git\n/aegis/bin/aos\n"),
            "{}",
            ended.said
        );
        assert!(ended.said.contains("?? mon\n1\n"), "{}", ended.said);
        let absent = ended.said.matches("cannot access 'ran'").count();
        assert_eq!(absent, 2, "{}", ended.said);
        assert!(ended.said.contains("\ntrue\n"), "{}", ended.said);
        assert!(ended.said.ends_with("1\nsession  test\n"), "{}", ended.said);
    });
}
