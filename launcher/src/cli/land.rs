//! `aegis-os land`: bring changes into the project.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use aegis_policies::journal::SnapshotCause;
use aegis_policies::path::escape;
use aegisfs::commit::{Approval, Entry, Frozen, Group, Item};

use super::{Outcome, talk};
use crate::error::CommandError;
use crate::review::{self, Desk, Style};

/// Brings what a session changed into the project.
#[derive(Debug, clap::Args)]
#[command(
    after_long_help = "Exit status: 0 when everything landed, 1 when something was left \
                             alone or the names given have no change. A file that you changed meanwhile is merged when you and the \
                             agent changed different lines, and left alone otherwise."
)]
pub struct Args {
    /// The session, or the first letters of its id.
    #[arg(long, short)]
    session: Option<String>,
    /// Agree to everything that would be asked.
    #[arg(long)]
    yes: bool,
    /// Only these files and folders. What was moved is named by its new place.
    paths: Vec<PathBuf>,
}

/// Lands.
///
/// # Errors
/// When the session can not be read or landed.
pub fn run(args: &Args) -> Outcome {
    let desk = Desk::at(args.session.as_deref())?;
    let frozen = freeze(&desk, &args.paths, &|_| false)?;
    let sheet = review::of_frozen(&desk.looking().site(), &frozen);
    if sheet.is_empty() {
        return Ok(nothing_to_land(&args.paths));
    }
    if args.yes {
        eprint(&review::sensitive(&sheet, Style::Plain));
        return land(&desk, frozen);
    }
    eprint(&review::summary(&sheet, Style::Plain));
    decide(&desk, &args.paths, frozen)
}

/// A name that was asked for and has no change is a mistake, and a script must not take it for
/// success.
fn nothing_to_land(paths: &[PathBuf]) -> ExitCode {
    if paths.is_empty() {
        talk::say("there is nothing to land");
        return ExitCode::SUCCESS;
    }
    talk::say(
        "there is nothing to land under the names that were given, which are relative to the \
         current directory; `aegis-os diff --stat` lists what changed",
    );
    ExitCode::FAILURE
}

/// Asks what policy wants asked, such as about what the person's own tools run or trust, then about
/// everything, and lands.
pub(super) fn decide(desk: &Desk, paths: &[PathBuf], mut frozen: Frozen) -> Outcome {
    let mut answers = Answers::new();
    loop {
        while let Some((question, entries)) = unanswered(&frozen, &answers) {
            let agreed = ask_about(&question, &entries)?;
            answers.insert(question, agreed);
        }
        let is_no =
            |entry: &&Entry| is_declined(&answers, entry.question.as_deref(), entry.sensitive);
        let declined: Vec<_> = frozen.entries().iter().filter(is_no).collect();
        if declined.is_empty() {
            break;
        }
        // The repository's records land together or not at all.
        let records = declined.iter().any(|entry| entry.group == Group::Git);
        // What becomes of the rest can depend on what is left out, and is shown again.
        drop(frozen);
        frozen = freeze(desk, paths, &|item| {
            (records && item.group == Group::Git)
                || is_declined(&answers, item.question.as_deref(), item.is_sensitive())
        })?;
        let sheet = review::of_frozen(&desk.looking().site(), &frozen);
        eprint(&review::summary(&sheet, Style::Plain));
    }
    let count = frozen.entries().len();
    if count == 0 {
        talk::say("nothing is left that could land");
        return Ok(ExitCode::FAILURE);
    }
    let question = format!("Land {count} names in the project");
    if !review::ask(&question, &format!("landing {count} names"))? {
        talk::say("nothing was landed");
        return Ok(ExitCode::FAILURE);
    }
    land(desk, frozen)
}

/// By question, whether the person agreed.
type Answers = BTreeMap<String, bool>;

/// The next question that nobody has answered, with everything that it is about.
fn unanswered<'a>(frozen: &'a Frozen, answers: &Answers) -> Option<(String, Vec<&'a Entry>)> {
    let question = |entry: &'a Entry| question(entry.question.as_deref(), entry.sensitive);
    let mut open = frozen.entries().iter().filter_map(question);
    let next = open.find(|question| !answers.contains_key(*question))?;
    let entries = frozen.entries().iter();
    let about = entries.filter(|entry| question(entry) == Some(next));
    Some((next.to_owned(), about.collect()))
}

fn is_declined(answers: &Answers, own: Option<&str>, is_sensitive: bool) -> bool {
    question(own, is_sensitive).is_some_and(|question| answers.get(question) == Some(&false))
}

/// What is asked about a name: what policy says, and about a sensitive one something in any case.
fn question(own: Option<&str>, is_sensitive: bool) -> Option<&str> {
    own.or(is_sensitive.then_some("land a name that your own tools run or trust"))
}

fn ask_about(question: &str, entries: &[&Entry]) -> Result<bool, CommandError> {
    let count = entries.len();
    talk::say(&format!("a question about {count} of these:"));
    for entry in entries.iter().take(SHOWN) {
        talk::say(&format!("  {:7} {}", entry.action.word(), entry.path));
    }
    if count > SHOWN {
        talk::say(&format!("  and {} more", count - SHOWN));
    }
    let question = escape(question.trim_end_matches('?').as_bytes());
    let mut letters = question.chars();
    let first = letters.next().map(|letter| letter.to_ascii_uppercase());
    let question: String = first.into_iter().chain(letters).collect();
    review::ask(
        &format!("{question}, too"),
        &format!("landing {count} of these names"),
    )
}

/// How many names a question lists.
const SHOWN: usize = 40;

/// Freezes what would land, without what is `declined`.
pub(super) fn freeze(
    desk: &Desk,
    paths: &[PathBuf],
    declined: &dyn Fn(&Item) -> bool,
) -> Result<Frozen, CommandError> {
    let mut plan = desk.plan(paths)?;
    plan.decline(declined);
    let frozen = plan.freeze(&desk.looking().site());
    let mut frozen = frozen.map_err(review::failed)?;
    desk.looking().label(&mut frozen)?;
    Ok(frozen)
}

fn land(desk: &Desk, frozen: Frozen) -> Outcome {
    let approval = Approval::by_person(frozen.manifest());
    let approved = frozen.approve(&approval).map_err(review::failed)?;
    desk.put_aside(SnapshotCause::Landing)?;
    let landed = approved
        .land(&desk.looking().site(), Some(desk.journal()))
        .map_err(review::failed)?;
    talk::say(&review::landed(&landed));
    Ok(status(landed.left().count()))
}

/// Zero when nothing was left alone.
pub(super) fn status(left: usize) -> ExitCode {
    if left == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn eprint(text: &str) {
    text.lines().for_each(talk::say);
}
