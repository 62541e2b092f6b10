//! The user's own settings, in the folder of sessions: the only place that can loosen anything.

use std::num::NonZeroU16;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;

use super::error::SessionError;
use super::home::{AegisHome, shown, user_home};

const SETTINGS: &str = "config.toml";
const POLICY: &str = "policy.cedar";

/// `config.toml`, and the policies of `policy.cedar`. Both may be absent.
#[derive(Debug)]
pub struct Config {
    /// Hosts that every session may connect to.
    pub allow: Vec<String>,
    /// Absolute paths outside the project that every session may read.
    pub read_only: Vec<PathBuf>,
    /// Further policies, in the Cedar language.
    pub policy: Option<String>,
    /// How long the process that serves a session may be silent before it is ended.
    pub patience: Duration,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Settings {
    allow: Vec<String>,
    ro: Vec<PathBuf>,
    /// In seconds.
    patience: Option<NonZeroU16>,
}

/// A disk that wakes up, or a machine that swaps, answers sooner than this.
const PATIENCE: Duration = Duration::from_secs(30);

impl Default for Config {
    fn default() -> Self {
        Self {
            allow: Vec::new(),
            read_only: Vec::new(),
            policy: None,
            patience: PATIENCE,
        }
    }
}

impl Config {
    /// The settings in the usual place; those of nobody where there is no folder of sessions yet.
    ///
    /// # Errors
    /// As [`Config::load`], or when the folder can not be trusted.
    pub fn current() -> Result<Self, SessionError> {
        let home = AegisHome::open()?;
        Ok(home
            .as_ref()
            .map(Self::load)
            .transpose()?
            .unwrap_or_default())
    }

    /// Reads the settings of the user whose sessions are in `home`.
    ///
    /// # Errors
    /// [`SessionError`] when a file is there and can not be read or understood.
    pub fn load(home: &AegisHome) -> Result<Self, SessionError> {
        let settings: Settings = match home.read(SETTINGS)? {
            Some(text) => toml::from_str(&text).map_err(|why| wrong(home, why.message()))?,
            None => Settings::default(),
        };
        let read_only = settings.ro.iter().map(|path| expand(home, path));
        Ok(Self {
            allow: settings.allow,
            read_only: read_only.collect::<Result<_, _>>()?,
            policy: home.read(POLICY)?,
            patience: settings.patience.map_or(PATIENCE, |seconds| {
                Duration::from_secs(u64::from(seconds.get()))
            }),
        })
    }
}

/// Replaces a leading `~`; a relative path would mean another place in every project.
fn expand(home: &AegisHome, path: &Path) -> Result<PathBuf, SessionError> {
    let expanded = match (path.strip_prefix("~"), user_home()) {
        (Ok(below), Some(user)) => user.join(below),
        _ => path.to_owned(),
    };
    if expanded.is_absolute() {
        return Ok(expanded);
    }
    Err(wrong(
        home,
        &format!("`ro` has the relative path `{}`", shown(path)),
    ))
}

fn wrong(home: &AegisHome, why: &str) -> SessionError {
    SessionError::Settings {
        path: home.path().join(SETTINGS),
        why: why.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_settings_are_refused() {
        let read = |text| toml::from_str::<Settings>(text);
        assert_eq!(read("allow = ['a:1']\nro = ['/x']").unwrap().allow, ["a:1"]);
        assert!(read("allowed = []").is_err());
        assert!(read("patience = 0").is_err());
        assert!(read("").unwrap().ro.is_empty());
    }
}
