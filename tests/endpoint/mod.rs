//! A scripted model: it answers an agent's requests with the next step of a script, in the words of
//! whatever tools the request offers.
//!
//! It keeps no state: the number of tool results in the conversation is the number of steps done,
//! so retries and side requests do not disturb the script.

mod anthropic;
mod responses;
mod tools;

use serde_json::json;

use crate::http::{Reply, Request, Server};
use tools::Tools;

/// One thing that the model wants to have done.
#[derive(Clone, Debug)]
pub enum Step {
    /// Read a file; an absolute path.
    Read(String),
    /// Make a file with this content.
    Write(String, String),
    /// Replace the first text by the second.
    Edit(String, String, String),
    /// Run a shell command.
    Shell(String),
}

/// What the model answers.
enum Answer {
    Call { tool: String, input: tools::Input },
    Text(&'static str),
}

/// Starts the endpoint.
pub fn start(steps: Vec<Step>) -> Server {
    Server::start(move |request, reply| answer(&steps, request, reply))
}

/// The output of every tool call that the conversation's last request carried, oldest first.
#[must_use]
pub fn results(server: &Server) -> Vec<String> {
    let conversations = server.requests();
    let all = conversations.iter().map(|request| match request.path() {
        path if path.ends_with("/messages") => anthropic::results(&request.json()),
        path if path.ends_with("/responses") => responses::results(&request.json()),
        _ => Vec::new(),
    });
    all.max_by_key(Vec::len).unwrap_or_default()
}

fn answer(steps: &[Step], request: &Request, reply: &mut Reply) {
    match request.path() {
        path if path.ends_with("/count_tokens") => reply.json(200, &json!({"input_tokens": 100})),
        path if path.ends_with("/messages") => anthropic::answer(steps, &request.json(), reply),
        path if path.ends_with("/responses") => responses::answer(steps, &request.json(), reply),
        path if path.ends_with("/models") => {
            reply.json(200, &json!({"object": "list", "data": [], "models": []}));
        }
        path => {
            let message = format!("the scripted endpoint has no route for {path}");
            reply.json(
                404,
                &json!({"error": {"type": "not_found_error", "message": message}}),
            );
        }
    }
}

fn next(steps: &[Step], done: usize, tools: &Tools) -> Answer {
    let Some(step) = steps.get(done) else {
        return Answer::Text("All steps are done.");
    };
    tools
        .call(step)
        .unwrap_or(Answer::Text("No tool of mine fits."))
}
