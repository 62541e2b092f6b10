//! From a command line to a command that runs in a sandbox, and to the end of it.
//!
//! The order matters: the launcher moves into its own namespace while it has one thread, the tree is
//! served before the sandbox binds it, and it is unmounted when nothing inside lives any more.

use std::ffi::OsString;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use aegis_egress::Door;
use aegis_policies::journal::Event;
use aegis_policies::path::escape;
use aegisfs::fuse;
use rustix::fs::{CWD, Mode, OFlags, openat};

use super::Session;
use super::config::Config;
use super::create::{Purpose, abandon, create};
use super::entrance::{Entrance, enter, hold_signals};
use super::exits::{Exits, is_local};
use super::home::{AegisHome, shown};
use super::lock::Lock;
use super::patience::Patience;
use super::project::Project;
use super::record::{Access, Bytes, Enforcement, State};
use super::repository::Whereabouts;
use super::serve::{ServeError, Serving, Setting};
use crate::error::{CommandError, OWN_FAILURE};
use crate::keeper::{At, Lifeline, Vigil};
use crate::sandbox::{self, Descriptors, HostFacts, Killer, Plan, Request, Running};
use crate::sys;
use crate::terminal::Stdio;

/// A command, and what it may reach.
#[derive(Debug)]
pub struct Launch {
    /// The folder of all sessions.
    pub home: AegisHome,
    /// The real project.
    pub project: Project,
    /// Where the command starts: the project, or a directory inside it.
    pub directory: PathBuf,
    /// The command and its arguments.
    pub command: Vec<OsString>,
    /// The user's settings, with what the command line adds to them.
    pub config: Config,
    /// Says something to the person.
    pub tell: fn(&str),
    /// The process that watches this one.
    pub lifeline: Lifeline,
}

/// A session whose command has ended.
#[derive(Debug)]
pub struct Finished {
    /// The session.
    pub session: Session,
    /// The exit status of the command, as shells report it.
    pub status: u8,
    /// What could not be recorded or closed, such as on a full disk. The command has run all the same.
    pub lapses: Vec<CommandError>,
}

/// What is found out before anything is made.
struct Outset {
    repository: Whereabouts,
    facts: HostFacts,
    exits: Exits,
    entrance: Entrance,
}

/// A command that runs, and everything that lives as long as it does.
struct Underway {
    serving: Serving,
    vigil: Vigil,
    door: Door,
    running: Running,
    stdio: Stdio,
}

impl Launch {
    /// Runs the command in a new session, whose agent is called `agent`.
    ///
    /// # Errors
    /// When the command could not be started (the session is removed), or not be waited for.
    pub fn begin(self, agent: String) -> Result<Finished, CommandError> {
        let outset = self.outset()?;
        let patience = Patience::with("starting the session", self.tell);
        let (command, mount) = (self.recorded_command(), outset.entrance.mode());
        let purpose = Purpose {
            agent,
            command,
            mount,
        };
        let (session, lock) = create(&self.home, &self.project, purpose)?;
        self.lifeline.session(&session);
        match self.start(&session, outset) {
            Ok(underway) => {
                drop(patience);
                attend(session, &lock, underway, self.tell)
            }
            Err(error) => {
                abandon(&self.home, &session, lock);
                Err(error)
            }
        }
    }

    /// Runs the command in `session`, which has run before.
    ///
    /// # Errors
    /// When the session is busy, or the command could not be started or waited for.
    pub fn again(self, mut session: Session) -> Result<Finished, CommandError> {
        let outset = self.outset()?;
        let patience = Patience::with("going through what the session did before", self.tell);
        let lock = session.claim()?;
        let before = session.record().clone();
        let mountpoint = session.dir().mountpoint();
        session.update(&lock, |record| {
            record.command = self.recorded_command();
            record.mount = outset.entrance.mode();
            record.mountpoint = mountpoint.as_path().into();
            record.access = Access::Shadow;
            record.features = None;
            record.server = std::process::id();
            record.state = State::Running;
            record.ended = None;
            record.status = None;
        })?;
        self.lifeline.session(&session);
        match self.start(&session, outset) {
            Ok(underway) => {
                drop(patience);
                attend(session, &lock, underway, self.tell)
            }
            Err(error) => {
                session.update(&lock, |record| *record = before)?;
                Err(error)
            }
        }
    }

    /// Finds out what the session depends on, and moves into a namespace while there is one thread.
    fn outset(&self) -> Result<Outset, CommandError> {
        let exits = Exits::new(&self.config.allow)?;
        let repository = Whereabouts::of(&self.project).map_err(ServeError::Repository)?;
        self.forewarn(&repository);
        let facts = sandbox::facts::gather(&self.request("", &exits))?;
        let entrance = enter()?;
        hold_signals()?;
        self.lifeline
            .hold()
            .map_err(|source| CommandError::io("staying with the process that watches", source))?;
        sys::files::raise();
        Ok(Outset {
            repository,
            facts,
            exits,
            entrance,
        })
    }

    /// Says what will not work inside as a person may expect.
    fn forewarn(&self, repository: &Whereabouts) {
        if let Some(outside) = repository.outside() {
            (self.tell)(&format!(
                "aegis-os: git will not work inside, because its directory `{}` lies outside the \
                 project",
                shown(outside)
            ));
        }
        for entry in self.config.allow.iter().filter(|entry| is_local(entry)) {
            let entry = escape(entry.as_bytes());
            (self.tell)(&format!(
                "aegis-os: `{entry}` is reached through the proxy alone, and many programs leave it \
                 out for such names; `curl --noproxy '' http://{entry}` does not"
            ));
        }
    }

    fn start(&self, session: &Session, outset: Outset) -> Result<Underway, CommandError> {
        let mut serving = Serving::start(&Setting {
            session,
            project: &self.project,
            repository: &outset.repository,
            policy: self.config.policy.as_deref(),
            mountpoint: &session.dir().mountpoint(),
            mode: outset.entrance.mode(),
            options: fuse::Options::default(),
            looks: fuse::Terms::default(),
        })
        .map_err(|error| outset.entrance.explain(error))?;
        let started = self.watch(&serving).and_then(|(vigil, killer)| {
            let (running, door, stdio) = self.start_inside(session, outset, &mut serving)?;
            // Where it is cut already, nobody else will end what runs inside.
            let killer = killer.get_or_init(|| running.killer());
            if vigil.is_cut() {
                killer.kill();
            }
            Ok((vigil, running, door, stdio))
        });
        match started {
            Ok((vigil, running, door, stdio)) => Ok(Underway {
                serving,
                vigil,
                door,
                running,
                stdio,
            }),
            Err(error) => {
                // The first failure is the one to tell.
                let _told_already = serving.stop();
                Err(error)
            }
        }
    }

    /// Has the tree watched from here on. When it is cut off, nothing inside can go on.
    fn watch(&self, serving: &Serving) -> Result<(Vigil, Arc<OnceLock<Killer>>), CommandError> {
        let failed = |source| CommandError::io("asking the project's view", source);
        let root = serving.view().map_err(failed)?;
        let killer = Arc::new(OnceLock::<Killer>::new());
        let inside = Arc::clone(&killer);
        let end = move || inside.get().into_iter().for_each(Killer::kill);
        let vigil = self
            .lifeline
            .serving(At::Root(root), self.config.patience, end);
        Ok((vigil.map_err(failed)?, killer))
    }

    /// Builds the sandbox around the served tree and lets the command start.
    fn start_inside(
        &self,
        session: &Session,
        outset: Outset,
        serving: &mut Serving,
    ) -> Result<(Running, Door, Stdio), CommandError> {
        let Outset { facts, exits, .. } = outset;
        let plan = Plan::build(&self.request(session.id().as_str(), &exits), &facts)?;
        let descriptors = self.descriptors(session, serving)?;
        sandbox::home::prepare(descriptors.home.as_fd(), &plan)?;
        let mut stdio = Stdio::prepare()?;
        let mut waiting = sandbox::linux::start(&plan, descriptors, &mut stdio)?;
        let listeners = std::mem::take(&mut waiting.doors);
        let agent = session.record().agent.as_str().into();
        let door = exits.open(listeners, serving.gate().clone(), agent)?;
        let command = self
            .command
            .iter()
            .map(|word| word.clone().into_encoded_bytes())
            .collect();
        serving.note(Event::Started { command })?;
        Ok((waiting.go()?, door, stdio))
    }

    fn descriptors(
        &self,
        session: &Session,
        serving: &mut Serving,
    ) -> Result<Descriptors, CommandError> {
        let failed = |source| CommandError::io("opening what the sandbox shows", source);
        let folder = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        // By its path: a handle of the mount namespace that was left leads nowhere when no other
        // process lives in that one (a service, a container).
        let home = openat(CWD, session.dir().home(), folder, Mode::empty())
            .map_err(|errno| failed(errno.into()))?;
        let real_tree = serving.show_real_tree(session, &self.project)?;
        let view = serving.view().map_err(failed)?;
        Ok(Descriptors {
            view,
            real_tree,
            home,
            binary: sandbox::linux::own_binary()?,
        })
    }

    fn request(&self, session: &str, exits: &Exits) -> Request {
        Request {
            session: session.to_owned(),
            project: self.project.path().to_owned(),
            directory: self.directory.clone(),
            command: self.command.clone(),
            read_only: self.config.read_only.clone(),
            hidden: vec![self.home.path().to_owned()],
            reachable: self.config.allow.clone(),
            environment: exits.environment(),
            doors: exits.ports(),
        }
    }

    fn recorded_command(&self) -> Vec<Bytes> {
        self.command.iter().cloned().map(Bytes::from).collect()
    }
}

/// Stays with the command until it and everything it started has ended, then closes the session.
fn attend(
    mut session: Session,
    lock: &Lock,
    underway: Underway,
    tell: fn(&str),
) -> Result<Finished, CommandError> {
    let Underway {
        serving,
        vigil,
        door,
        running,
        stdio,
    } = underway;
    let enforced = Enforcement {
        landlock: running.enforced.landlock,
        missing: running.enforced.missing.clone(),
    };
    let features = serving.features();
    let recorded = session.update(lock, |record| {
        record.enforced = Some(enforced);
        record.features = Some(features);
    });
    let mut lapses: Vec<CommandError> = recorded.err().into_iter().map(Into::into).collect();
    let ended = stdio.relay(running);
    let _patience = Patience::with("closing the session", tell);
    let is_cut = vigil.end();
    // Closed before the end is noted, so that every connection is on record by then.
    let _passed = door.close();
    let status = ended.as_ref().map_or(OWN_FAILURE, |exit| exit.code);
    let noted = serving.note(Event::Ended {
        status: i32::from(status),
    });
    lapses.extend(noted.err().map(CommandError::from));
    let features = serving.features();
    lapses.extend(serving.stop().err().map(CommandError::from));
    let recorded = session.end(lock, i32::from(status), features);
    lapses.extend(recorded.err().map(CommandError::from));
    ended?;
    if is_cut {
        return Err(cut_off(&session));
    }
    Ok(Finished {
        session,
        status,
        lapses,
    })
}

fn cut_off(session: &Session) -> CommandError {
    let id = session.id();
    CommandError::told(
        &format!("session `{id}` was cut off"),
        "something outside cut the connection of its view, so everything in it was ended",
        &format!(
            "nothing is lost that a program was told is written: `aegis-os resume {id}` goes on \
             with it"
        ),
    )
}
