//! The real agents: unmodified packages that the set-up installed.

use std::path::PathBuf;
use std::process::Command;

use crate::TestEnv;

/// An agent and how it is started without a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Agent {
    /// Claude Code.
    Claude,
    /// Codex CLI.
    Codex,
}

impl Agent {
    /// The name in tables and of the folder in the cache.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Codex => "codex",
        }
    }

    /// Where the set-up put the agents.
    #[must_use]
    pub fn directory() -> PathBuf {
        std::env::var_os("AEGIS_TEST_AGENTS").map_or_else(
            || PathBuf::from("/var/cache/aegis-test-agents"),
            PathBuf::from,
        )
    }

    /// The agent's program; `None` when it is not installed.
    ///
    /// # Panics
    /// On a build server, where the agents are part of what is tested.
    #[must_use]
    pub fn program(self) -> Option<PathBuf> {
        let inside = match self {
            Self::Claude => "claude/node_modules/@anthropic-ai/claude-code-linux-x64/claude",
            Self::Codex => {
                "codex/node_modules/@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex"
            }
        };
        let program = Self::directory().join(inside);
        if program.is_file() {
            return Some(program);
        }
        assert!(
            std::env::var_os("CI").is_none(),
            "`{}` is missing; `tests/setup.sh test` installs it",
            program.display()
        );
        None
    }

    /// Adds what the *launcher's* environment holds: the key and the address of the endpoint.
    pub fn configure(self, command: &mut Command, url: &str, key: &str) {
        match self {
            Self::Claude => command
                .env("ANTHROPIC_BASE_URL", url)
                .env("ANTHROPIC_API_KEY", key)
                .env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
            Self::Codex => command
                .env("OPENAI_BASE_URL", format!("{url}/v1"))
                .env("OPENAI_API_KEY", key),
        };
    }

    /// A shell script that starts the agent on one prompt. It takes the endpoint from the variables
    /// of its environment, so that it is the same inside and outside of the sandbox.
    #[must_use]
    pub fn script(self, env: &TestEnv) -> Option<String> {
        let program = self.program()?.display().to_string();
        let project = env.project().display();
        Some(match self {
            Self::Claude => format!(
                "exec '{program}' -p 'carry out the steps' --dangerously-skip-permissions \
                 --output-format json"
            ),
            Self::Codex => format!(
                "exec '{program}' exec --dangerously-bypass-approvals-and-sandbox --json \
                 -C '{project}' -m gpt-5.5 -c model_provider=door -c 'model_providers.door.name=\"door\"' \
                 -c \"model_providers.door.base_url=\\\"$OPENAI_BASE_URL\\\"\" \
                 -c 'model_providers.door.env_key=\"OPENAI_API_KEY\"' \
                 -c 'model_providers.door.wire_api=\"responses\"' \
                 -c analytics.enabled=false --disable plugins 'carry out the steps'"
            ),
        })
    }
}
