//! The door of a session: its listeners, its thread, its end.

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

use aegis_policies::Gate;
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::desk::Desk;
use crate::error::EgressError;
use crate::http::Client;
use crate::options::Options;
use crate::room::{Api, Room};
use crate::upstream::Upstream;
use crate::{proxy, reverse};

/// What a listener is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entrance {
    /// CONNECT and `http://` URLs, to hosts that are allowed.
    Proxy,
    /// The API of the upstream with this name.
    Reverse(String),
}

/// An open door. Dropping it closes it.
#[derive(Debug)]
pub struct Door {
    room: Arc<Room>,
    closing: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

/// What passed through a door.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Tunnels that were opened.
    pub connections: u64,
    /// Requests that were forwarded.
    pub requests: u64,
    /// Attempts that were refused.
    pub refused: u64,
    /// Bytes from the sandbox.
    pub sent: u64,
    /// Bytes to the sandbox.
    pub received: u64,
}

/// A listener as the runtime knows it.
struct Listening {
    listener: tokio::net::TcpListener,
    behind: Behind,
}

/// What stands behind a listener.
#[derive(Clone)]
enum Behind {
    Proxy,
    Api(Arc<Api>),
}

impl Door {
    /// Opens the door: connections that arrive at the listeners are served from now on, by a thread
    /// of its own. The listeners may belong to another network namespace than the caller; every
    /// connection outward is made from the caller's.
    ///
    /// # Errors
    /// [`EgressError`] when an entrance names an unknown upstream, a listener can not be used, or
    /// the thread can not be started. The listeners are closed then.
    pub fn open(
        listeners: Vec<(Entrance, TcpListener)>,
        upstreams: Vec<Upstream>,
        gate: Arc<Gate>,
        agent: Arc<str>,
        options: Options,
    ) -> Result<Self, EgressError> {
        let room = Arc::new(Room::new(Desk::new(gate, agent), upstreams, options));
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(MOST_LOOK_UPS)
            .build()
            .map_err(EgressError::Thread)?;
        let listening = {
            let _reactor = runtime.enter();
            let adopt = |(entrance, listener)| adopt(&room, entrance, listener);
            listeners
                .into_iter()
                .map(adopt)
                .collect::<Result<Vec<_>, _>>()?
        };
        let (closing, closed) = watch::channel(false);
        let served = Arc::clone(&room);
        let thread = std::thread::Builder::new()
            .name("egress".to_owned())
            .spawn(move || run(runtime, &served, listening, closed))
            .map_err(EgressError::Thread)?;
        Ok(Self {
            room,
            closing,
            thread: Some(thread),
        })
    }

    /// What passed through the door so far.
    #[must_use]
    pub fn summary(&self) -> Summary {
        let tally = &self.room.desk.tally;
        Summary {
            connections: tally.connections.load(Ordering::Relaxed),
            requests: tally.requests.load(Ordering::Relaxed),
            refused: tally.refused.load(Ordering::Relaxed),
            sent: tally.sent.load(Ordering::Relaxed),
            received: tally.received.load(Ordering::Relaxed),
        }
    }

    /// Closes the door and every connection through it; each has its entry in the journal when
    /// this returns.
    #[must_use]
    pub fn close(mut self) -> Summary {
        self.shut();
        self.summary()
    }

    fn shut(&mut self) {
        self.closing.send_replace(true);
        if let Some(thread) = self.thread.take() {
            // A panic there was reported by the thread itself.
            drop(thread.join());
        }
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        self.shut();
    }
}

fn adopt(room: &Room, entrance: Entrance, listener: TcpListener) -> Result<Listening, EgressError> {
    let behind = match entrance {
        Entrance::Proxy => Behind::Proxy,
        Entrance::Reverse(name) => match room.apis.get(&name) {
            Some(api) => Behind::Api(Arc::clone(api)),
            None => return Err(EgressError::UnknownUpstream { name }),
        },
    };
    listener
        .set_nonblocking(true)
        .map_err(EgressError::Listener)?;
    let listener = tokio::net::TcpListener::from_std(listener).map_err(EgressError::Listener)?;
    Ok(Listening { listener, behind })
}

/// The life of the thread.
fn run(
    runtime: Runtime,
    room: &Arc<Room>,
    listening: Vec<Listening>,
    mut closed: watch::Receiver<bool>,
) {
    runtime.block_on(async {
        let slots = Arc::new(Semaphore::new(room.limits.connections));
        let mut doors = JoinSet::new();
        for entrance in listening {
            doors.spawn(accept(Arc::clone(room), entrance, Arc::clone(&slots)));
        }
        // An error means that the sender is gone, which ends the door as well.
        drop(closed.wait_for(|closed| *closed).await);
        // Dropping the tasks drops their connections and ledgers, which writes the entries.
        doors.shutdown().await;
    });
    // A look-up that hangs must not hold up the end of the session.
    runtime.shutdown_background();
}

/// Serves as many connections as there are slots; what comes above waits in the listen queue.
async fn accept(room: Arc<Room>, entrance: Listening, slots: Arc<Semaphore>) {
    let mut connections = JoinSet::new();
    loop {
        let Ok((stream, _address)) = entrance.listener.accept().await else {
            // No descriptors or no memory: pause, so that the error does not fill a processor.
            sleep(PAUSE).await;
            continue;
        };
        while connections.try_join_next().is_some() {}
        let Ok(slot) = Arc::clone(&slots).acquire_owned().await else {
            return;
        };
        let (room, behind) = (Arc::clone(&room), entrance.behind.clone());
        connections.spawn(async move {
            serve(&room, behind, stream).await;
            drop(slot);
        });
    }
}

async fn serve(room: &Room, behind: Behind, stream: TcpStream) {
    let Ok(client) = Client::new(stream) else {
        return;
    };
    match behind {
        Behind::Proxy => proxy::serve(room, client).await,
        Behind::Api(api) => reverse::serve(room, &api, client).await,
    }
}

/// getaddrinfo(3) blocks a thread for each look-up.
const MOST_LOOK_UPS: usize = 16;
const PAUSE: Duration = Duration::from_millis(50);
