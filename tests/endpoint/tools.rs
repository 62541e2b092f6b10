//! From a step of the script to a tool that the agent offers.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{Answer, Step};

/// How a tool takes its input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// Named arguments.
    Arguments,
    /// One free text.
    Text,
}

/// The input of a call.
pub(super) enum Input {
    Arguments(Value),
    Text(String),
}

/// The tools that a request offers.
#[derive(Default)]
pub(super) struct Tools(BTreeMap<String, Form>);

impl Tools {
    pub(super) fn offer(&mut self, name: &str, form: Form) {
        self.0.insert(name.to_owned(), form);
    }

    /// The call that carries out a step: by the agent's own editing tools where it offers some,
    /// else by its shell.
    pub(super) fn call(&self, step: &Step) -> Option<Answer> {
        self.native(step)
            .or_else(|| self.patch(step))
            .or_else(|| self.shell(&as_shell(step)))
    }

    fn native(&self, step: &Step) -> Option<Answer> {
        let (tool, input) = match step {
            Step::Read(path) => ("Read", json!({"file_path": path})),
            Step::Write(path, content) => ("Write", json!({"file_path": path, "content": content})),
            Step::Edit(path, old, new) => (
                "Edit",
                json!({"file_path": path, "old_string": old, "new_string": new}),
            ),
            Step::Shell(command) => return self.shell(command),
        };
        self.arguments(tool, input)
    }

    fn shell(&self, command: &str) -> Option<Answer> {
        self.arguments("Bash", json!({"command": command, "description": "a step"}))
            .or_else(|| self.arguments("exec_command", json!({"cmd": command})))
            .or_else(|| self.arguments("shell_command", json!({"command": command})))
            .or_else(|| self.arguments("shell", json!({"command": ["bash", "-c", command]})))
    }

    fn arguments(&self, tool: &str, input: Value) -> Option<Answer> {
        (self.0.get(tool) == Some(&Form::Arguments)).then(|| Answer::Call {
            tool: tool.to_owned(),
            input: Input::Arguments(input),
        })
    }

    fn patch(&self, step: &Step) -> Option<Answer> {
        let body = match step {
            Step::Write(path, content) => format!("*** Add File: {path}\n{}", marked('+', content)),
            Step::Edit(path, old, new) => {
                let (old, new) = (marked('-', old), marked('+', new));
                format!("*** Update File: {path}\n@@\n{old}{new}")
            }
            Step::Read(_) | Step::Shell(_) => return None,
        };
        let text = format!("*** Begin Patch\n{body}*** End Patch");
        let input = match self.0.get("apply_patch")? {
            Form::Text => Input::Text(text),
            Form::Arguments => Input::Arguments(json!({ "input": text })),
        };
        Some(Answer::Call {
            tool: "apply_patch".to_owned(),
            input,
        })
    }
}

fn marked(sign: char, text: &str) -> String {
    text.trim_end_matches('\n')
        .lines()
        .map(|line| format!("{sign}{line}\n"))
        .collect()
}

fn as_shell(step: &Step) -> String {
    match step {
        Step::Read(path) => format!("cat '{path}'"),
        Step::Write(path, content) => {
            format!("cat > '{path}' <<'END_OF_FILE'\n{content}END_OF_FILE")
        }
        Step::Edit(path, old, new) => format!(
            "python3 - <<'END_OF_PROGRAM'\nfrom pathlib import Path\nfile = Path({path:?})\n\
             file.write_text(file.read_text().replace({old:?}, {new:?}, 1))\nEND_OF_PROGRAM"
        ),
        Step::Shell(command) => command.clone(),
    }
}
