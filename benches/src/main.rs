//! Measures aegisfs and the sandbox against the native file system and their neighbours.
//!
//! Every number comes from pairs, native then the other, taken in turns within one run; what is
//! reported is the median of the ratios with their spread, because times alone mean nothing on a
//! machine that others use too. Nothing fails on time; what can not be measured at all does.
//!
//!     aegis-benches [--quick] [--rounds N] [NAME...]

#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a tool that starts programs, works in a folder of its own, and prints"
)]

mod corpus;
mod operation;
mod pairs;
mod report;
mod start;
mod target;

use std::error::Error;
use std::process::ExitCode;

use corpus::Corpus;
use operation::Operation;
use report::Report;
use target::Target;

/// Any failure of a measurement; it is printed and the next one goes on.
type Outcome<T> = Result<T, Box<dyn Error>>;

/// What the command line asks for.
struct Options {
    /// 5,000 files and one round instead of 100,000 and three.
    quick: bool,
    rounds: usize,
    /// Measurements to take; empty for all.
    names: Vec<String>,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match arguments.first().map(String::as_str) {
        Some("operation") => operation::child(&arguments),
        _ => measure(&options(&arguments)),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("aegis-benches: {error}");
            ExitCode::FAILURE
        }
    }
}

fn options(arguments: &[String]) -> Options {
    let quick = arguments.iter().any(|argument| argument == "--quick");
    let rounds = arguments
        .iter()
        .skip_while(|argument| *argument != "--rounds")
        .nth(1);
    let names = arguments
        .iter()
        .filter(|argument| !argument.starts_with("--") && Some(*argument) != rounds);
    Options {
        quick,
        rounds: rounds
            .and_then(|text| text.parse().ok())
            .unwrap_or(if quick { 1 } else { 3 }),
        names: names.cloned().collect(),
    }
}

fn measure(options: &Options) -> Outcome<()> {
    let wanted = |name: &str| options.names.is_empty() || options.names.iter().any(|n| n == name);
    let corpus = Corpus::ready(if options.quick { 5_000 } else { 100_000 })?;
    let targets: Vec<Target> = Target::ALL
        .into_iter()
        .filter(|target| target.is_here())
        .collect();
    let mut report = Report::new(&targets);
    if wanted("start") {
        note("session start");
        report.add(
            "session start, against `bwrap ... true`",
            vec![start::pairs(&corpus, options)],
        );
    }
    for operation in Operation::ALL
        .into_iter()
        .filter(|operation| wanted(operation.name()))
    {
        for (row, per_target) in operation::rows(operation, &targets, &corpus, options.rounds) {
            report.add(&row, per_target);
        }
    }
    report.print(&corpus);
    match report.failures() {
        0 => Ok(()),
        count => Err(format!("{count} measurements failed; why is said above the table").into()),
    }
}

/// Says on standard error what is going on.
fn note(text: &str) {
    eprintln!("  {text} ...");
}
