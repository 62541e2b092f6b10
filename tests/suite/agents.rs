//! Real agents, unmodified, do a scripted task of several files in the sandbox; the result lands.

use aegis_tests::agents::Agent;
use aegis_tests::endpoint::{self, Step};
use aegis_tests::http::Server;
use aegis_tests::{Finished, TestEnv, audit, tree};

const KEY: &str = "sk-ant-the-real-key";

#[test]
fn claude_code_completes_a_task() {
    complete(Agent::Claude);
}

#[test]
fn codex_completes_a_task() {
    complete(Agent::Codex);
}

fn complete(agent: Agent) {
    let enforced = TestEnv::with_repository();
    let Some(script) = agent.script(&enforced) else {
        println!(
            "skipped: {} is not installed; `tests/setup.sh test` installs it",
            agent.name()
        );
        return;
    };
    enforced.write_home(".ssh/id_ed25519", "PRIVATE KEY OF THE USER\n");
    enforced.write_home(".bashrc", "# shell\n");
    let git = tree::read(&enforced.project().join(".git"), &[]);

    let inside = endpoint::start(task(&enforced));
    let seen = work(&enforced, agent, &inside, &script, true).ok();
    let results = endpoint::results(&inside).join("\n");
    assert_eq!(
        endpoint::results(&inside).len(),
        task(&enforced).len(),
        "{results}\n{}",
        seen.output()
    );
    key_stays_outside(&inside, &results, &seen);
    nothing_got_out(&enforced, &results);
    tree::assert_same(&tree::read(&enforced.project().join(".git"), &[]), &git);
    let refused = audit::refusals(&enforced);
    assert!(
        refused
            .iter()
            .any(|one| one == "fs.write .git/hooks/pre-commit"),
        "{refused:?}"
    );
    let landing = enforced.land();

    let plain = TestEnv::with_repository();
    let script = agent.script(&plain).unwrap();
    let outside = endpoint::start(task(&plain));
    let bare = work(&plain, agent, &outside, &script, false).ok();
    same_result(&enforced, &plain);

    println!("| agent | did | refused, on record | requests | in the sandbox | without |");
    println!("|---|---|---|---|---|---|");
    println!(
        "| {} | {} | {} | {} | {:.2} s + landing {:.2} s | {:.2} s |",
        agent.name(),
        did(&task(&enforced)),
        refused.join(", "),
        inside.requests().len(),
        seen.wall.as_secs_f64(),
        landing.wall.as_secs_f64(),
        bare.wall.as_secs_f64()
    );
}

fn did(steps: &[Step]) -> String {
    let mut counts = [("read", 0), ("edit", 0), ("write", 0), ("shell", 0)];
    for step in steps {
        let kind = match step {
            Step::Read(_) => 0,
            Step::Edit(..) => 1,
            Step::Write(..) => 2,
            Step::Shell(_) => 3,
        };
        counts[kind].1 += 1;
    }
    counts
        .map(|(name, count)| format!("{count} {name}"))
        .join(", ")
}

/// Write, edit, run a test, commit - and on the way, try what an agent may not do.
fn task(env: &TestEnv) -> Vec<Step> {
    let path = |name: &str| env.project().join(name).display().to_string();
    let shell = |command: &str| Step::Shell(command.to_owned());
    vec![
        Step::Read(path("src/greet.py")),
        Step::Edit(
            path("src/greet.py"),
            "    return 'hello ' + name".into(),
            "    return f'hello, {name}!'".into(),
        ),
        Step::Write(
            path("src/part.py"),
            "def part(name):\n    return f'bye, {name}!'\n".into(),
        ),
        Step::Write(path("test_all.py"), TEST.to_owned()),
        shell("python3 -B -m unittest test_all 2>&1 && echo TESTS-PASS"),
        shell(
            "cat ~/.ssh/id_ed25519; echo evil >> ~/.bashrc; echo evil > .git/hooks/pre-commit; \
               printenv ANTHROPIC_API_KEY OPENAI_API_KEY; true",
        ),
        shell(
            "mkdir -p docs && git mv keep.txt docs/kept.txt && git add -A \
               && git commit -q -m 'Greet with a comma' && git status --short && git log --oneline",
        ),
    ]
}

const TEST: &str = "import sys, unittest
sys.path.insert(0, 'src')
from greet import greet
from part import part


class All(unittest.TestCase):
    def test_words(self):
        self.assertEqual(greet('you'), 'hello, you!')
        self.assertEqual(part('you'), 'bye, you!')
";

fn work(env: &TestEnv, agent: Agent, endpoint: &Server, script: &str, sandboxed: bool) -> Finished {
    let agents = Agent::directory();
    let mut command = if sandboxed {
        let mut command = env.command(env.binary());
        command
            .args(["run", "--name", agent.name(), "--ro"])
            .arg(agents)
            .args(["--", "bash"]);
        command
    } else {
        env.command("bash")
    };
    command.args(["-c", script]);
    agent.configure(&mut command, &endpoint.url(), KEY);
    Finished::of(&mut command)
}

/// The endpoint was sent the real key, and the agent never saw it.
fn key_stays_outside(endpoint: &Server, results: &str, seen: &Finished) {
    for request in endpoint
        .requests()
        .iter()
        .filter(|request| request.method == "POST")
    {
        let key = request
            .header("x-api-key")
            .or_else(|| request.header("authorization"));
        assert!(
            key.is_some_and(|key| key.ends_with(KEY)),
            "{:?}",
            request.headers
        );
    }
    assert!(
        !results.contains(KEY) && !seen.output().contains(KEY),
        "{results}"
    );
}

fn nothing_got_out(env: &TestEnv, results: &str) {
    assert!(results.contains("TESTS-PASS"), "{results}");
    assert!(!results.contains("PRIVATE KEY OF THE USER"), "{results}");
    let shell = std::fs::read_to_string(env.home().join(".bashrc")).unwrap();
    assert_eq!(shell, "# shell\n");
}

fn same_result(enforced: &TestEnv, plain: &TestEnv) {
    let read = |env: &TestEnv| tree::read(env.project(), &[".git"]);
    tree::assert_same(&read(enforced), &read(plain));
    let facts =
        "git log --format='%s %an' && git ls-files -s && git status --porcelain && git fsck";
    let landed = enforced.sh(facts).ok().stdout;
    assert_eq!(landed, plain.sh(facts).ok().stdout);
    assert!(landed.contains("Greet with a comma Tester"), "{landed}");
    assert!(!enforced.project().join(".git/hooks/pre-commit").exists());
}
