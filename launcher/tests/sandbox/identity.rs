//! Who the command is inside, and what it inherited.

use super::body::{Body, as_both_users};

#[test]
fn it_has_no_privilege() {
    as_both_users("sandbox::identity::it_has_no_privilege", || {
        let ended =
            Body::new().run("grep -E '^(Cap...|NoNewPrivs|Seccomp):' /proc/self/status; id -u");
        for line in [
            "CapEff:\t0000000000000000",
            "CapBnd:\t0000000000000000",
            "NoNewPrivs:\t1",
            "Seccomp:\t2",
        ] {
            assert!(ended.said.contains(line), "{line} is not in {}", ended.said);
        }
        let user = rustix::process::getuid().as_raw().to_string();
        assert_eq!(ended.said.lines().last(), Some(user.as_str()));
    });
}

#[test]
fn variables_are_those_of_the_list() {
    as_both_users("sandbox::identity::variables_are_those_of_the_list", || {
        let mut body = Body::new();
        body.variables = vec![
            ("AWS_SECRET_ACCESS_KEY".into(), "secret".into()),
            ("LD_PRELOAD".into(), "/tmp/x.so".into()),
            ("SSH_AUTH_SOCK".into(), "/run/agent".into()),
            ("LC_AEGIS_TEST".into(), "passes".into()),
        ];
        let ended = body.run("env; tr '\\0' '\\n' < /proc/1/environ");
        assert!(
            ended.said.contains("LC_AEGIS_TEST=passes"),
            "{}",
            ended.said
        );
        assert!(ended.said.contains("AEGIS_SESSION=test"), "{}", ended.said);
        for name in [
            "AWS_SECRET",
            "LD_PRELOAD",
            "SSH_AUTH_SOCK",
            "CARGO_MANIFEST_DIR",
            "AEGIS_TEST",
        ] {
            assert!(
                !ended.said.contains(&format!("\n{name}")),
                "{name} is in {}",
                ended.said
            );
        }
    });
}

#[test]
fn no_descriptor_comes_along() {
    as_both_users("sandbox::identity::no_descriptor_comes_along", || {
        // Without the flag that closes it at exec, as a careless parent would leave it.
        let left_open = std::fs::File::open("/").unwrap();
        rustix::io::fcntl_setfd(&left_open, rustix::io::FdFlags::empty()).unwrap();
        let ended = Body::new().run("for fd in /proc/self/fd/*; do echo ${fd##*/}; done");
        let numbers: Vec<_> = ended.said.lines().collect();
        // The shell keeps one above 9 for itself while it lists nothing; the glob lists the rest.
        assert!(numbers.starts_with(&["0", "1", "2"]), "{numbers:?}");
        assert!(!numbers.contains(&"4") && numbers.len() <= 4, "{numbers:?}");
    });
}

#[test]
fn its_own_processes_are_all_it_sees() {
    as_both_users(
        "sandbox::identity::its_own_processes_are_all_it_sees",
        || {
            let ended = Body::new().run("ls -d /proc/[0-9]* | wc -l; hostname; ps -o sid= -p $$");
            let lines: Vec<_> = ended.said.lines().map(str::trim).collect();
            let count: usize = lines.first().unwrap().parse().unwrap();
            assert!(count < 8, "{}", ended.said);
            // A session leader inside, so that job control counts in its own numbers.
            assert_eq!(lines.get(1..), Some(&["aegis", "2"][..]));
        },
    );
}

#[test]
fn limits_hold() {
    // A limit of 0 would let a core dump go to a program of the host; lowering it seems to work.
    let ended = Body::new().run(
        "/usr/bin/python3 - <<'end'\n\
         from resource import *\n\
         print(getrlimit(RLIMIT_CORE))\n\
         for limits in ((0, 1), (0, 0)):\n\
         \tsetrlimit(RLIMIT_CORE, limits); print(getrlimit(RLIMIT_CORE))\n\
         \tprlimit(0, RLIMIT_CORE, limits); print(prlimit(0, RLIMIT_CORE))\n\
         setrlimit(RLIMIT_STACK, (1 << 20, getrlimit(RLIMIT_STACK)[1]))\n\
         print(getrlimit(RLIMIT_STACK)[0] >> 20, getrlimit(RLIMIT_NPROC)[1] <= 8192)\n\
         end",
    );
    assert_eq!(ended.said, "(1, 1)\n".repeat(5) + "1 True\n");
}

#[test]
fn exit_codes_are_those_of_a_shell() {
    as_both_users("sandbox::identity::exit_codes_are_those_of_a_shell", || {
        let mut body = Body::new();
        assert_eq!(body.run("exit 37").code, 37);
        assert_eq!(body.run("kill -9 $$").code, 137);
        assert_eq!(body.run("kill -TERM $$").code, 143);
        body.request.command = vec!["./absent".into()];
        assert_eq!(body.wait(), 127);
        std::fs::write(body.request.project.join("data"), "x").unwrap();
        body.request.command = vec!["./data".into()];
        assert_eq!(body.wait(), 126);
    });
}

#[test]
fn nothing_outlives_the_command() {
    let mut body = Body::new();
    let mark = format!("31{}", std::process::id());
    let ended = body.run(&format!(
        "setsid sleep {mark} & nohup sleep {mark} & echo started"
    ));
    assert!(ended.said.contains("started"));
    assert!(!super::body::is_running(&["sleep", &mark]));
}

#[test]
fn dropping_a_sandbox_ends_it() {
    let mut body = Body::new();
    body.request.command = vec!["sleep".into(), "1000".into()];
    let running = body.start();
    drop(running);
    let mut stdio = aegis_launcher::terminal::Stdio::prepare().unwrap();
    drop(body.build(&mut stdio).unwrap());
}
