//! What is known of the serving process, and when its silence has lasted too long.

use std::path::Path;
use std::time::Duration;

use nix::sys::signal::Signal;
use nix::sys::wait::WaitStatus;

use super::TICK;
use super::word::Word;
use crate::error::CommandError;
use crate::session::Bytes;

/// The silence is looked at so many times before patience is at its end.
const LOOKS: u32 = 8;

/// How the serving process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// By itself, with this status.
    Exited(i32),
    /// By a signal.
    Killed(Signal),
    /// By this process, because it was silent.
    Silent,
}

/// What the words say so far.
#[derive(Debug, Default)]
pub(super) struct Watch {
    session: Option<(String, Bytes)>,
    serving: Option<Serving>,
}

#[derive(Debug)]
struct Serving {
    patience: Duration,
    silence: Duration,
    device: u32,
}

impl Ending {
    pub(super) fn of(status: WaitStatus) -> Self {
        match status {
            WaitStatus::Exited(_, code) => Self::Exited(code),
            WaitStatus::Signaled(_, signal, _) => Self::Killed(signal),
            _ => Self::Silent,
        }
    }
}

impl Watch {
    pub(super) fn hear(&mut self, word: Word) {
        match word {
            Word::Session { id, mountpoint } => {
                self.session = Some((id, mountpoint));
            }
            Word::Serving { patience, device } => {
                self.serving = Some(Serving {
                    patience: Duration::from_millis(patience),
                    silence: Duration::ZERO,
                    device,
                });
            }
            Word::Closing => self.serving = None,
            Word::Ready => {}
        }
    }

    /// The tree has answered.
    pub(super) fn answered(&mut self) {
        if let Some(serving) = &mut self.serving {
            serving.silence = Duration::ZERO;
        }
    }

    /// How long one look may last.
    pub(super) fn look(&self) -> Duration {
        let serving = self.serving.as_ref();
        serving.map_or(TICK, |serving| (serving.patience / LOOKS).min(TICK))
    }

    /// A look took so long, and nothing was heard after it.
    ///
    /// One that lasted much longer than it should was held up itself: the machine was suspended, or
    /// this process was stopped together with the other one. What that one did meanwhile is not known.
    pub(super) fn pass(&mut self, time: Duration) {
        let longest = self.look().saturating_mul(2);
        if let Some(serving) = &mut self.serving {
            serving.silence += time.min(longest);
        }
    }

    /// Whether the silence has lasted too long.
    pub(super) fn is_over(&self) -> bool {
        let serving = self.serving.as_ref();
        serving.is_some_and(|serving| serving.silence >= serving.patience)
    }

    /// The minor number of the device of a tree that is served.
    pub(super) fn device(&self) -> Option<u32> {
        self.serving.as_ref().map(|serving| serving.device)
    }

    /// Where the session's tree may still be mounted.
    pub(super) fn mountpoint(&self) -> Option<&Path> {
        let (_, mountpoint) = self.session.as_ref()?;
        Some(Path::new(mountpoint.as_os_str()))
    }

    /// What to tell the person, or the exit status where there is nothing to tell.
    pub(super) fn told(&self, ending: Ending, is_gone: bool) -> Result<CommandError, u8> {
        let asked = [
            Signal::SIGINT,
            Signal::SIGQUIT,
            Signal::SIGTERM,
            Signal::SIGHUP,
        ];
        let id = self.session.as_ref().map(|(id, _)| id);
        let why = match ending {
            // Nothing had begun, and somebody wanted it so.
            Ending::Killed(signal) if id.is_none() && asked.contains(&signal) => {
                return Err(u8::try_from(128 + signal as i32).unwrap_or(u8::MAX));
            }
            Ending::Killed(signal) => format!("the process that served it was killed ({signal})"),
            Ending::Silent | Ending::Exited(_) => self.silence(),
        };
        let Some(id) = id else {
            let what = "the session could not be started";
            return Ok(CommandError::told(what, why, "start it again"));
        };
        let rest = if is_gone {
            "everything in it has ended with it"
        } else {
            "what is left of it waits for a disk, and ends when the disk answers"
        };
        Ok(CommandError::told(
            &format!("session `{id}` was cut off"),
            format!("{why}; {rest}"),
            &format!(
                "nothing is lost that a program was told is written: `aegis-os status {id}` shows \
                 the session, `aegis-os resume {id}` goes on with it"
            ),
        ))
    }

    fn silence(&self) -> String {
        let patience = self.serving.as_ref().map(|serving| serving.patience);
        let seconds = patience.unwrap_or_default().as_secs_f64();
        format!("the process that served it did not answer for {seconds} s and was ended")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn serving() -> Watch {
        let mut watch = Watch::default();
        watch.hear(Word::Session {
            id: "a".into(),
            mountpoint: Bytes::Text("/m".into()),
        });
        watch.hear(Word::Serving {
            patience: 3000,
            device: 1,
        });
        watch
    }

    fn look(watch: &mut Watch) -> bool {
        watch.pass(watch.look());
        watch.is_over()
    }

    #[test]
    fn only_silence_while_it_serves_counts() {
        let mut watch = Watch::default();
        assert!((0..100).all(|_| !look(&mut watch)));
        let mut watch = serving();
        assert!((0..7).all(|_| !look(&mut watch)));
        watch.answered();
        assert_eq!((0..8).find(|_| look(&mut watch)), Some(7));
        watch.hear(Word::Closing);
        assert!((0..100).all(|_| !look(&mut watch)));
    }

    #[test]
    fn a_suspended_machine_is_not_silence() {
        let mut watch = serving();
        watch.pass(Duration::from_secs(3600));
        assert!(!watch.is_over());
    }

    #[test]
    fn what_is_told_says_what_to_do() {
        let told = serving().told(Ending::Silent, true).unwrap();
        assert!(
            told.to_string().contains("did not answer for 3 s"),
            "{told}"
        );
        assert!(told.next().unwrap().contains("aegis-os resume a"));
        let killed = Ending::Killed(Signal::SIGKILL);
        let told = serving().told(killed, true).unwrap().to_string();
        assert!(told.contains("was killed (SIGKILL)"), "{told}");
        let early = Watch::default();
        assert!(early.told(Ending::Killed(Signal::SIGKILL), true).is_ok());
        assert_eq!(
            early
                .told(Ending::Killed(Signal::SIGINT), true)
                .unwrap_err(),
            130
        );
    }
}
