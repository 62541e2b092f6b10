//! A whole session on an empty project, to see what is really enforced.

use std::fs;
use std::io;
use std::path::PathBuf;

use rustix::fs::{Mode, mkdir};
use rustix::rand::{GetRandomFlags, getrandom};

use super::{Problem, ourselves};
use crate::doctor::Trial;

/// Runs `true` in a session of its own and reads what was enforced.
pub(in crate::doctor) fn session() -> Result<Trial, Problem> {
    let problem = |why: String| Problem {
        why,
        next: "see to what is missing above, then run `aegis-os doctor` again".to_owned(),
    };
    let place = Place::make().map_err(|error| problem(error.to_string()))?;
    place.run().map_err(problem)
}

/// A folder with an empty project and a folder of sessions.
struct Place(PathBuf);

impl Place {
    fn make() -> io::Result<Self> {
        let mut random = [0_u8; 8];
        getrandom(&mut random[..], GetRandomFlags::empty())?;
        let name = format!("aegis-doctor-{:016x}", u64::from_ne_bytes(random));
        let place = Self(std::env::temp_dir().join(name));
        mkdir(&place.0, Mode::RWXU)?;
        mkdir(place.project(), Mode::RWXU)?;
        Ok(place)
    }

    fn project(&self) -> PathBuf {
        self.0.join("project")
    }

    fn sessions(&self) -> PathBuf {
        self.0.join("sessions-of-doctor")
    }

    fn run(&self) -> Result<Trial, String> {
        let mut command = ourselves();
        command
            .args(["run", "--", "true"])
            .current_dir(self.project());
        command.env("AEGIS_HOME", self.sessions());
        let output = command.output().map_err(|error| error.to_string())?;
        if !output.status.success() {
            return Err(told(&output.stderr));
        }
        self.outcome()
            .ok_or_else(|| "the session left no record".to_owned())
    }

    fn outcome(&self) -> Option<Trial> {
        let mut sessions = fs::read_dir(self.sessions().join("sessions")).ok()?;
        let record = fs::read(sessions.next()?.ok()?.path().join("session.json")).ok()?;
        let record: crate::session::Record = serde_json::from_slice(&record).ok()?;
        Some(Trial {
            enforced: record.enforced?,
            features: record.features,
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // Left to the system's cleaning of temporary files where it can not be removed now.
        let _left = crate::session::remove_folder(&self.0);
    }
}

/// The first line of ours in what the trial said.
fn told(stderr: &[u8]) -> String {
    let text = String::from_utf8_lossy(stderr);
    let mut lines = text
        .lines()
        .filter_map(|line| line.strip_prefix("aegis-os: "));
    lines
        .rfind(|line| !line.starts_with("working on"))
        .unwrap_or("it failed without a word")
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_word_of_ours_is_told() {
        let said = b"aegis-os: working on a view of `/p`\naegis-os: no bwrap\n  what to do: x\n";
        assert_eq!(told(said), "no bwrap");
        assert_eq!(told(b""), "it failed without a word");
    }
}
