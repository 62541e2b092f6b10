//! `aegis-os recover`: what can be saved of a session whose record is damaged.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use aegis_policies::path::escape;
use aegisfs::overlay::OverlayError;
use aegisfs::overlay::salvage::{Saved, State};

use super::{Outcome, talk};
use crate::session::home::shown;
use crate::session::rescue::{Kept, Rescue};
use crate::session::summary::count;
use crate::session::{self, Moment};

/// Says what of a session's record is damaged and what can be saved, and saves it.
///
/// The record is read up to the damage, or from a checkpoint behind it. Nothing is written to the
/// session.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Args {
    /// The session, or the first letters of its id.
    session: Option<String>,
    /// Mount the tree as it was at the last saved entry here, to be looked at, until Ctrl-C or
    /// `aegis-os unmount MOUNTPOINT`.
    #[arg(conflicts_with = "into")]
    mountpoint: Option<PathBuf>,
    /// Copy what the session made or changed into this folder, which must be empty or absent.
    #[arg(long, value_name = "DIR")]
    into: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Example:
  aegis-os recover                       what is damaged, and what is left
  aegis-os recover --into /tmp/saved     copy what is left
  aegis-os recover ID /tmp/view          look at the tree as it was";

/// Names listed in the text; a damaged session may have changed very many.
const LISTED: usize = 200;

/// Reports, and copies when asked to.
///
/// # Errors
/// When the session is running or has no journal at all, or the folder can not be written.
pub fn run(args: &Args) -> Outcome {
    let rescue = Rescue::begin(session::look_up(args.session.as_deref())?)?;
    talk::print(&report(&rescue))?;
    if let Some(mountpoint) = &args.mountpoint {
        return look(rescue, mountpoint);
    }
    let Some(folder) = &args.into else {
        return Ok(ExitCode::SUCCESS);
    };
    let kept = rescue.copy_into(folder)?;
    talk::say(&copied(&kept, folder));
    for (path, why) in &kept.missing {
        talk::say(&format!("  not saved  {path}: {why}"));
    }
    Ok(if kept.missing.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn look(rescue: Rescue, mountpoint: &Path) -> Outcome {
    let looking = rescue.look(mountpoint)?;
    talk::say(&format!(
        "aegis-os: what is left is mounted on `{}`, where nothing can be changed; Ctrl-C unmounts it",
        shown(looking.mountpoint())
    ));
    looking.attend()?;
    Ok(ExitCode::SUCCESS)
}

fn report(rescue: &Rescue) -> String {
    let salvage = rescue.salvage();
    let mut text = String::new();
    // Writing to a string can not fail.
    let mut line = |title: &str, value: &str| {
        let _ok = writeln!(text, "{title:8} {value}");
    };
    line("session", rescue.session().id().as_str());
    if salvage.damage.is_empty() {
        line("damage", "none: the record is whole");
    }
    for damage in &salvage.damage {
        line("damage", &told(damage));
    }
    let last = Moment::from_millis(salvage.at / 1_000_000).readable();
    line(
        "saved",
        &match salvage.next {
            0 => "no entry".to_owned(),
            next => format!("up to entry {}, of {last} UTC", next - 1),
        },
    );
    if let Some(seq) = salvage.passed_by {
        line(
            "",
            &format!(
                "from the checkpoint before entry {seq}: the first damage costs the record of what \
                 happened, and nothing of the tree"
            ),
        );
    }
    line("names", &tally(rescue.files()));
    let unsure = rescue.files().iter().filter_map(notice);
    for (title, path) in unsure.take(LISTED) {
        line(title, &path);
    }
    text
}

/// The damage in words; paths in it may hold anything.
fn told(damage: &OverlayError) -> String {
    escape(damage.to_string().as_bytes())
}

fn tally(files: &[Saved]) -> String {
    let number =
        |wanted: fn(&State) -> bool| files.iter().filter(|saved| wanted(&saved.state)).count();
    let mut parts = vec![format!("{} changed", files.len())];
    let parted = [
        (
            number(|it| matches!(it, State::Newer)),
            "newer than the record",
        ),
        (number(|it| matches!(it, State::Torn)), "in part only"),
        (number(|it| matches!(it, State::Lost(_))), "lost"),
    ];
    for (count, what) in parted {
        if count > 0 {
            parts.push(format!("{count} {what}"));
        }
    }
    parts.join(", ")
}

/// What is to be said about a name.
fn notice(saved: &Saved) -> Option<(&'static str, String)> {
    let path = &saved.change.path;
    Some(match &saved.state {
        State::Whole => return None,
        State::Newer => (
            "newer",
            format!("{path}: written to after the last saved entry, and shown as it is now"),
        ),
        State::Torn => (
            "torn",
            format!("{path}: the project's file changed before all of it was copied"),
        ),
        State::Lost(error) => ("lost", format!("{path}: {error}")),
    })
}

fn copied(kept: &Kept, folder: &Path) -> String {
    let mut text = format!(
        "aegis-os: {} saved in `{}`",
        count(kept.saved, "name"),
        shown(folder)
    );
    if kept.removed > 0 {
        let _ok = write!(
            text,
            "; {} that the session removed or moved away can not be shown there",
            count(kept.removed, "name")
        );
    }
    text
}
