//! What was found, in words and as data.

use std::fmt::Write;

use serde_json::json;

use super::{Examination, Finding, Need, Problem, Trial};
use crate::cli::status;

/// For people.
#[must_use]
pub fn as_text(examination: &Examination) -> String {
    let mut text = String::new();
    for finding in &examination.findings {
        text.push_str(&line(finding));
    }
    match &examination.session {
        Ok(trial) => {
            text.push_str(&served(trial));
            let _ok = writeln!(
                text,
                "{:8} {:14} enforced (seccomp, Landlock ABI {})",
                "tier", "", trial.enforced.landlock
            );
            for missing in &trial.enforced.missing {
                let _ok = writeln!(text, "{:23} missing: {missing}", "");
            }
        }
        Err(problem) => {
            let _ok = writeln!(
                text,
                "{:8} {:14} none: sessions can not run here",
                "tier", ""
            );
            text.push_str(&told(problem));
        }
    }
    text
}

/// For programs.
#[must_use]
pub fn as_json(examination: &Examination) -> String {
    let findings: Vec<_> = examination
        .findings
        .iter()
        .map(|finding| {
            let (found, problem) = match &finding.result {
                Ok(found) => (Some(found), None),
                Err(problem) => (
                    None,
                    Some(json!({"why": problem.why, "next": problem.next})),
                ),
            };
            json!({
                "name": finding.name,
                "required": finding.need == Need::Required,
                "found": found,
                "problem": problem,
            })
        })
        .collect();
    let (trial, problem) = match &examination.session {
        Ok(trial) => (Some(trial), None),
        Err(problem) => (None, Some(&problem.why)),
    };
    let object = json!({
        "fit": examination.is_fit(),
        "tier": if examination.is_fit() { "enforced" } else { "none" },
        "enforced": trial.map(|trial| &trial.enforced),
        "features": trial.map(|trial| &trial.features),
        "problem": problem,
        "findings": findings,
    });
    format!("{object}\n")
}

fn line(finding: &Finding) -> String {
    match (&finding.result, finding.need) {
        (Ok(found), _) => format!("{:8} {:14} {found}\n", "ok", finding.name),
        (Err(problem), need) => {
            let word = match need {
                Need::Required => "missing",
                Need::Useful => "without",
                Need::Optional => "option",
            };
            format!(
                "{word:8} {:14} {}",
                finding.name,
                told(problem).trim_start()
            )
        }
    }
}

/// How the tree of the session was served, as `status` says it.
fn served(trial: &Trial) -> String {
    let mut text = String::new();
    for (title, content) in status::served_lines(trial.features.as_ref()) {
        let _ok = writeln!(text, "{title:8} {:14} {content}", "");
    }
    text
}

fn told(problem: &Problem) -> String {
    format!(
        "{0:23} {1}\n{0:23} what to do: {2}\n",
        "", problem.why, problem.next
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::Enforcement;

    #[test]
    fn says_what_is_missing_and_what_to_do() {
        let problem = Problem {
            why: "not there".into(),
            next: "install it".into(),
        };
        let examination = Examination {
            findings: vec![
                Finding {
                    name: "/dev/fuse",
                    need: Need::Required,
                    result: Ok("yes".into()),
                },
                Finding {
                    name: "bubblewrap",
                    need: Need::Required,
                    result: Err(problem),
                },
            ],
            session: Ok(Trial {
                enforced: Enforcement {
                    landlock: 7,
                    missing: vec!["a part".into()],
                },
                features: None,
            }),
        };
        assert_eq!(
            as_text(&examination),
            "ok       /dev/fuse      yes\n\
             missing  bubblewrap     not there\n                        what to do: install it\n\
             tier                    enforced (seccomp, Landlock ABI 7)\n                        missing: a part\n"
        );
        let value: serde_json::Value = serde_json::from_str(&as_json(&examination)).unwrap();
        assert_eq!(value["fit"], true);
        assert_eq!(value["findings"][1]["problem"]["next"], "install it");
    }
}
