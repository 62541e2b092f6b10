//! Reading what a session put on record, through `aegis-os audit --json`.

use serde_json::Value;

use crate::TestEnv;

/// Every entry of the newest session, oldest first.
///
/// # Panics
/// When the command fails or prints something that is not one JSON value per line or one array.
#[must_use]
#[track_caller]
pub fn entries(env: &TestEnv) -> Vec<Value> {
    let text = env.aegis(&["audit", "--json"]).ok().stdout;
    if let Ok(Value::Array(entries)) = serde_json::from_str(&text) {
        return entries;
    }
    text.lines()
        .map(|line| serde_json::from_str(line).expect("one JSON value per line"))
        .collect()
}

/// What was refused, each as `kind name`.
#[must_use]
#[track_caller]
pub fn refusals(env: &TestEnv) -> Vec<String> {
    let entries = entries(env);
    let refused = entries.iter().filter(|entry| entry["event"] == "refused");
    let words = refused.map(|entry| {
        let details = &entry["details"];
        let scope = &details["scope"];
        let name = scope["path"]
            .as_str()
            .or_else(|| scope["host"].as_str())
            .unwrap_or("?");
        format!("{} {name}", details["kind"].as_str().unwrap_or("?"))
    });
    words.collect()
}

/// The entries that mention `word`, as text.
#[must_use]
#[track_caller]
pub fn mentioning(env: &TestEnv, word: &str) -> Vec<String> {
    entries(env)
        .iter()
        .map(Value::to_string)
        .filter(|entry| entry.contains(word))
        .collect()
}
