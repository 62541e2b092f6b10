//! Measures aegisfs and the sandbox against the native file system and their neighbours.
//!
//! Every number comes from pairs, native then the other, taken in turns within one run; what is
//! reported is the median of the ratios with their spread, because times alone mean nothing on a
//! machine that others use too. Nothing fails on time; what can not be measured, or gives another
//! result than the native file system, does.
//!
//!     aegis-benches [--quick] [--rounds N] [--only TARGET] [NAME...]
//!
//! As root, everything but the mount of the kernel's overlayfs is done as the ordinary user
//! `aegis-test`, and a column for aegisfs mounted by root is added.

#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a tool that starts programs, works in a folder of its own, and prints"
)]

mod corpus;
mod pairs;
mod person;
mod report;
mod start;
mod target;
mod work;
mod workload;

use std::error::Error;
use std::process::ExitCode;

use corpus::Corpus;
use report::Report;
use target::Target;
use workload::Workload;

/// Any failure of a measurement; it is printed and the next one goes on.
type Outcome<T> = Result<T, Box<dyn Error>>;

/// What the command line asks for.
struct Options {
    /// 5,000 files and one round instead of 100,000 and three.
    quick: bool,
    rounds: usize,
    /// The one target to measure, by its name.
    only: Option<String>,
    /// Measurements to take; empty for all.
    names: Vec<String>,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match arguments.first().map(String::as_str) {
        Some("work") => work::child(&arguments),
        Some("corpus") => corpus::child(&arguments),
        _ => options(&arguments).and_then(|options| measure(&options)),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("aegis-benches: {error}");
            ExitCode::FAILURE
        }
    }
}

fn options(arguments: &[String]) -> Outcome<Options> {
    let mut options = Options {
        quick: false,
        rounds: 0,
        only: None,
        names: Vec::new(),
    };
    let mut left = arguments.iter();
    while let Some(argument) = left.next() {
        match argument.as_str() {
            "--quick" => options.quick = true,
            "--rounds" => options.rounds = left.next().ok_or("--rounds needs a number")?.parse()?,
            "--only" => options.only = left.next().cloned(),
            flag if flag.starts_with('-') => return Err(format!("unknown option `{flag}`").into()),
            name => options.names.push(name.to_owned()),
        }
    }
    if options.rounds == 0 {
        options.rounds = if options.quick { 1 } else { 3 };
    }
    Ok(options)
}

fn measure(options: &Options) -> Outcome<()> {
    let wanted = |name: &str| options.names.is_empty() || options.names.iter().any(|n| n == name);
    let corpus = Corpus::ready(if options.quick { 5_000 } else { 100_000 })?;
    let asked = |target: &Target| {
        let only = options.only.as_deref();
        only.is_none_or(|only| only == target.name())
    };
    let targets: Vec<Target> = Target::ALL
        .into_iter()
        .filter(|target| asked(target) && target.is_here())
        .collect();
    let mut report = Report::new(&targets);
    if wanted("start") {
        note("session start");
        report.add(
            "session start, against `bwrap ... true`",
            vec![start::pairs(&corpus, options)],
        );
    }
    if wanted("mount") {
        note("mount");
        report.add(
            "mount of the repository",
            start::mounts(&corpus, &targets, options.rounds),
        );
    }
    for workload in Workload::ALL
        .iter()
        .filter(|workload| wanted(workload.name))
    {
        note(workload.name);
        for (row, per_target) in workload.rows(&targets, &corpus, options.rounds) {
            report.add(row, per_target);
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
