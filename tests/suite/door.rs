//! The one way out: tunnels to listed hosts, and model APIs with a key that is nowhere inside.

use std::process::Command;
use std::sync::{Arc, Condvar, Mutex};

use aegis_tests::http::{Reply, Request, Server};
use aegis_tests::{Finished, TestEnv, audit};
use serde_json::json;

const KEY: &str = "sk-real-key-of-the-launcher";

fn echo() -> Server {
    Server::start(|request: &Request, reply: &mut Reply| {
        reply.json(
            200,
            &json!({"path": request.target, "length": request.body.len()}),
        );
    })
}

fn run(env: &TestEnv, options: &[&str], script: &str, set: impl Fn(&mut Command)) -> Finished {
    let mut command = env.run_command(options, "");
    set(command.args(["-uc", script]));
    Finished::of(&mut command)
}

/// A request by Python's own client, which honours the proxy variables.
const FETCH: &str = r#"
import os, sys, urllib.request
url, headers = sys.argv[1], dict(h.split("=", 1) for h in sys.argv[2:])
request = urllib.request.Request(url, data=b"{\"model\":\"m\"}", headers=headers)
try:
    answer = urllib.request.urlopen(request, timeout=20)
    print("STATUS", answer.status, answer.read().decode())
except urllib.error.HTTPError as error:
    print("STATUS", error.code, error.read().decode())
"#;

#[test]
fn the_key_is_added_outside_and_is_nowhere_inside() {
    let env = TestEnv::with_repository();
    let upstream = echo();
    let script = format!(
        "python3 -c '{FETCH}' \"$ANTHROPIC_BASE_URL/v1/messages?beta=true\" \"x-api-key=$ANTHROPIC_API_KEY\"
         env; cat /proc/[0-9]*/environ | tr '\\0' '\\n'; grep -rsaF '{}''{}' ~ . /aegis /tmp /etc /run"
        , &KEY[..9], &KEY[9..]
    );
    let seen = run(&env, &[], &script, |command| {
        command
            .env("ANTHROPIC_BASE_URL", upstream.url())
            .env("ANTHROPIC_API_KEY", KEY);
    });
    assert!(seen.stdout.contains("STATUS 200"), "{}", seen.output());
    assert!(
        !seen.output().contains(KEY),
        "the key is inside: {}",
        seen.output()
    );
    assert!(
        !seen.stdout.contains(&upstream.port().to_string()),
        "{}",
        seen.stdout
    );
    let requests = upstream.requests();
    assert_eq!(requests.len(), 1);
    assert_eq!(requests[0].header("x-api-key"), Some(KEY));
    assert_eq!(requests[0].target, "/v1/messages?beta=true");
    assert_eq!(requests[0].body, b"{\"model\":\"m\"}");
    assert!(
        !audit::mentioning(&env, "anthropic").is_empty(),
        "the request is not on record"
    );
}

#[test]
fn both_apis_have_their_way_of_carrying_a_key() {
    let env = TestEnv::with_repository();
    let upstream = echo();
    let script = format!(
        "python3 -c '{FETCH}' \"$OPENAI_BASE_URL/responses\" \"Authorization=Bearer $OPENAI_API_KEY\""
    );
    let seen = run(&env, &[], &script, |command| {
        command
            .env("OPENAI_BASE_URL", format!("{}/v1", upstream.url()))
            .env("OPENAI_API_KEY", KEY);
    });
    assert!(seen.stdout.contains("STATUS 200"), "{}", seen.output());
    let requests = upstream.requests();
    assert_eq!(
        requests[0].header("authorization"),
        Some(format!("Bearer {KEY}").as_str())
    );
    assert_eq!(requests[0].path(), "/v1/responses");
}

#[test]
fn a_key_of_the_agents_own_is_replaced() {
    let env = TestEnv::with_repository();
    let upstream = echo();
    let script = format!(
        "python3 -c '{FETCH}' \"$ANTHROPIC_BASE_URL/v1/messages\" x-api-key=smuggled authorization=smuggled"
    );
    let _ = run(&env, &[], &script, |command| {
        command
            .env("ANTHROPIC_BASE_URL", upstream.url())
            .env("ANTHROPIC_API_KEY", KEY);
    });
    let requests = upstream.requests();
    assert_eq!(requests.len(), 1);
    let smuggled = requests[0]
        .headers
        .iter()
        .any(|(_, value)| value.contains("smuggled"));
    assert!(!smuggled, "{:?}", requests[0].headers);
}

/// The key opens the API's routes for a model, and not the account behind it.
#[test]
fn other_routes_of_the_api_are_refused() {
    let env = TestEnv::with_repository();
    let upstream = echo();
    let paths = [
        "/v1/organizations/keys",
        "/v1/files",
        "/v1/messages/../files",
        "//v1/files",
    ];
    let fetch = |path| format!("python3 -c '{FETCH}' \"$ANTHROPIC_BASE_URL{path}\"\n");
    let script: String = paths.map(fetch).concat();
    let seen = run(&env, &[], &script, |command| {
        command
            .env("ANTHROPIC_BASE_URL", upstream.url())
            .env("ANTHROPIC_API_KEY", KEY);
    });
    assert_eq!(
        seen.stdout.matches("STATUS 4").count(),
        paths.len(),
        "{}",
        seen.output()
    );
    assert!(upstream.requests().is_empty(), "{:?}", upstream.requests());
}

/// The second event is sent only after the client has said that it has the first: a proxy that
/// collects the stream before it passes it on would wait for ever.
#[test]
fn events_arrive_one_by_one() {
    let env = TestEnv::with_repository();
    let heard = Arc::new((Mutex::new(false), Condvar::new()));
    let told = Arc::clone(&heard);
    let upstream = Server::start(move |request: &Request, reply: &mut Reply| {
        let (lock, bell) = &*told;
        if request.target.ends_with("?heard") {
            *lock.lock().unwrap() = true;
            bell.notify_all();
            return reply.json(200, &json!({}));
        }
        reply.begin_events();
        reply.event("first", &json!({"n": 1}));
        let patience = std::time::Duration::from_secs(20);
        let waiting = bell.wait_timeout_while(lock.lock().unwrap(), patience, |heard| !*heard);
        if *waiting.unwrap().0 {
            reply.event("second", &json!({"n": 2}));
        }
        reply.end_events();
    });
    let script = r#"python3 -c '
import os, urllib.request
base = os.environ["ANTHROPIC_BASE_URL"]
stream = urllib.request.urlopen(base + "/v1/messages", data=b"{}", timeout=40)
for line in stream:
    print(line.decode().strip())
    if b"first" in line:
        urllib.request.urlopen(base + "/v1/messages?heard", data=b"{}", timeout=20).read()
'"#;
    let seen = run(&env, &[], script, |command| {
        command
            .env("ANTHROPIC_BASE_URL", upstream.url())
            .env("ANTHROPIC_API_KEY", KEY);
    });
    assert!(seen.stdout.contains("event: second"), "{}", seen.output());
}

#[test]
fn a_listed_host_can_be_reached_and_the_tunnel_is_on_record() {
    let env = TestEnv::with_repository();
    let upstream = echo();
    let listed = format!("127.0.0.1:{}", upstream.port());
    let script = tunnel(upstream.port());
    let seen = run(&env, &["--allow", &listed], &script, |_| {});
    assert!(
        seen.stdout.contains("GOT HTTP/1.1 200"),
        "{}",
        seen.output()
    );
    assert_eq!(upstream.requests().len(), 1);
    assert!(
        !audit::mentioning(&env, "127.0.0.1").is_empty(),
        "the tunnel is not on record"
    );
}

#[test]
fn a_host_that_is_not_listed_is_refused_and_the_refusal_is_on_record() {
    let env = TestEnv::with_repository();
    let upstream = echo();
    let seen = run(
        &env,
        &["--allow", "example.org"],
        &tunnel(upstream.port()),
        |_| {},
    );
    assert!(
        seen.stdout.contains("SAID") && !seen.stdout.contains("GOT"),
        "{}",
        seen.output()
    );
    assert!(seen.stdout.contains(" 403 "), "{}", seen.output());
    assert!(upstream.requests().is_empty());
    assert!(
        !audit::mentioning(&env, "net.connect").is_empty(),
        "the refusal is not on record"
    );
}

#[test]
fn names_are_not_resolved_inside() {
    let env = TestEnv::with_repository();
    let seen = env.run("getent hosts example.org || echo nothing; getent hosts localhost");
    assert!(seen.stdout.contains("nothing"), "{}", seen.output());
}

/// Python that speaks to the proxy by hand: a tunnel to 127.0.0.1 and a request through it.
fn tunnel(port: u16) -> String {
    format!(
        r#"python3 -c '
import os, socket, urllib.parse
door = urllib.parse.urlsplit(os.environ["HTTPS_PROXY"])
s = socket.create_connection((door.hostname, door.port), 20)
s.sendall(b"CONNECT 127.0.0.1:{port} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n")
answer = s.recv(4096).decode()
print("SAID", answer.splitlines()[0])
if " 200 " in answer.splitlines()[0] + " ":
    s.sendall(b"GET /through HTTP/1.1\r\nHost: x\r\n\r\n")
    print("GOT", s.recv(4096).decode().splitlines()[0])
'"#
    )
}
