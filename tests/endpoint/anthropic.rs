//! The Anthropic Messages protocol.

use serde_json::{Value, json};

use super::tools::{Form, Input, Tools};
use super::{Answer, Step, next};
use crate::http::Reply;

pub(super) fn answer(steps: &[Step], request: &Value, reply: &mut Reply) {
    let block = match next(steps, results(request).len(), &offered(request)) {
        Answer::Text(text) => json!({"type": "text", "text": text}),
        Answer::Call {
            tool,
            input: Input::Arguments(input),
        } => {
            let id = format!("toolu_{}", results(request).len());
            json!({"type": "tool_use", "id": id, "name": tool, "input": input})
        }
        Answer::Call { .. } => {
            json!({"type": "text", "text": "this protocol has no free-text tools"})
        }
    };
    let stop = if block["type"] == "tool_use" {
        "tool_use"
    } else {
        "end_turn"
    };
    let message = message(request, stop, &block);
    if request["stream"] == true {
        stream(&message, &block, stop, reply);
    } else {
        reply.json(200, &message);
    }
}

pub(super) fn results(request: &Value) -> Vec<String> {
    let messages = request["messages"].as_array().into_iter().flatten();
    let blocks = messages.flat_map(|message| message["content"].as_array().into_iter().flatten());
    blocks
        .filter(|block| block["type"] == "tool_result")
        .map(|block| block["content"].to_string())
        .collect()
}

fn offered(request: &Value) -> Tools {
    let mut tools = Tools::default();
    for tool in request["tools"].as_array().into_iter().flatten() {
        if let Some(name) = tool["name"].as_str() {
            tools.offer(name, Form::Arguments);
        }
    }
    tools
}

fn message(request: &Value, stop: &str, block: &Value) -> Value {
    json!({
        "id": "msg_scripted", "type": "message", "role": "assistant", "model": request["model"],
        "content": [block], "stop_reason": stop, "stop_sequence": null,
        "usage": {"input_tokens": 100, "output_tokens": 10,
                  "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0},
    })
}

fn stream(message: &Value, block: &Value, stop: &str, reply: &mut Reply) {
    let mut opening = message.clone();
    opening["content"] = json!([]);
    opening["stop_reason"] = Value::Null;
    let mut empty = block.clone();
    let delta = if block["type"] == "tool_use" {
        empty["input"] = json!({});
        json!({"type": "input_json_delta", "partial_json": block["input"].to_string()})
    } else {
        empty["text"] = json!("");
        json!({"type": "text_delta", "text": block["text"]})
    };
    let end = json!({"stop_reason": stop, "stop_sequence": null});
    reply.begin_events();
    for event in [
        json!({"type": "message_start", "message": opening}),
        json!({"type": "content_block_start", "index": 0, "content_block": empty}),
        json!({"type": "content_block_delta", "index": 0, "delta": delta}),
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "message_delta", "delta": end, "usage": {"output_tokens": 10}}),
        json!({"type": "message_stop"}),
    ] {
        reply.event(event["type"].as_str().unwrap(), &event);
    }
    reply.end_events();
}
