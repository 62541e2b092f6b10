//! The OpenAI Responses protocol.

use serde_json::{Value, json};

use super::tools::{Form, Input, Tools};
use super::{Answer, Step, next};
use crate::http::Reply;

pub(super) fn answer(steps: &[Step], request: &Value, reply: &mut Reply) {
    let done = results(request).len();
    let item = item(done, next(steps, done, &offered(request)));
    let response = response(request, &item);
    if request["stream"] == true {
        stream(&response, &item, reply);
    } else {
        reply.json(200, &response);
    }
}

pub(super) fn results(request: &Value) -> Vec<String> {
    let items = request["input"].as_array().into_iter().flatten();
    items
        .filter(|item| {
            item["type"]
                .as_str()
                .is_some_and(|kind| kind.ends_with("_call_output"))
        })
        .map(|item| item["output"].to_string())
        .collect()
}

fn offered(request: &Value) -> Tools {
    let mut tools = Tools::default();
    for tool in request["tools"].as_array().into_iter().flatten() {
        let form = if tool["type"] == "custom" {
            Form::Text
        } else {
            Form::Arguments
        };
        if let Some(name) = tool["name"].as_str() {
            tools.offer(name, form);
        }
    }
    tools
}

fn item(done: usize, answer: Answer) -> Value {
    let call = format!("call_{done}");
    match answer {
        Answer::Text(text) => json!({
            "type": "message", "id": "msg_scripted", "role": "assistant", "status": "completed",
            "content": [{"type": "output_text", "text": text, "annotations": []}],
        }),
        Answer::Call {
            tool,
            input: Input::Arguments(input),
        } => json!({
            "type": "function_call", "id": format!("fc_{done}"), "call_id": call, "name": tool,
            "arguments": input.to_string(), "status": "completed",
        }),
        Answer::Call {
            tool,
            input: Input::Text(input),
        } => json!({
            "type": "custom_tool_call", "id": format!("ctc_{done}"), "call_id": call, "name": tool,
            "input": input, "status": "completed",
        }),
    }
}

fn response(request: &Value, item: &Value) -> Value {
    json!({
        "id": "resp_scripted", "object": "response", "created_at": 1_700_000_000,
        "status": "completed", "model": request["model"], "output": [item],
        "usage": {"input_tokens": 100, "input_tokens_details": {"cached_tokens": 0},
                  "output_tokens": 10, "output_tokens_details": {"reasoning_tokens": 0},
                  "total_tokens": 110},
    })
}

fn stream(response: &Value, item: &Value, reply: &mut Reply) {
    let mut opening = response.clone();
    opening["status"] = json!("in_progress");
    opening["output"] = json!([]);
    reply.begin_events();
    let events = [
        json!({"type": "response.created", "response": opening}),
        json!({"type": "response.output_item.added", "output_index": 0, "item": item}),
        json!({"type": "response.output_item.done", "output_index": 0, "item": item}),
        json!({"type": "response.completed", "response": response}),
    ];
    for (number, mut event) in events.into_iter().enumerate() {
        event["sequence_number"] = json!(number);
        let name = event["type"].as_str().unwrap().to_owned();
        reply.event(&name, &event);
    }
    reply.end_events();
}
