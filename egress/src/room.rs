//! What every connection of a session shares.

use std::collections::HashMap;
use std::sync::Arc;

use aegis_policies::Permit;
use tokio::net::TcpStream;

use crate::allow::{AllowList, Listing};
use crate::desk::Desk;
use crate::dial::{DialError, Dialer};
use crate::http::Answer;
use crate::link::Pool;
use crate::name::Authority;
use crate::options::{EncryptedHello, Limits, Options, Timeouts};
use crate::tls::Tls;
use crate::upstream::Upstream;
use crate::words;

/// What every connection of a session shares.
#[derive(Debug)]
pub(crate) struct Room {
    pub(crate) desk: Arc<Desk>,
    pub(crate) allow: AllowList,
    pub(crate) dialer: Dialer,
    pub(crate) tls: Arc<Tls>,
    pub(crate) encrypted_hello: EncryptedHello,
    pub(crate) timeouts: Timeouts,
    pub(crate) limits: Limits,
    pub(crate) apis: HashMap<String, Arc<Api>>,
}

/// An upstream and the connections to it that wait.
#[derive(Debug)]
pub(crate) struct Api {
    pub(crate) upstream: Upstream,
    pub(crate) pool: Pool,
    /// A base URL from the user's own environment may be in a private network.
    pub(crate) dialer: Dialer,
}

impl Room {
    pub(crate) fn new(desk: Desk, upstreams: Vec<Upstream>, options: Options) -> Self {
        let dialer = Dialer {
            resolver: options.resolver,
            allow_private: options.allow_private,
            patience: options.timeouts.connect,
        };
        let apis = upstreams.into_iter().map(|upstream| {
            let allow_private = dialer.allow_private || upstream.base.chosen;
            let dialer = Dialer {
                allow_private,
                ..dialer.clone()
            };
            let name = upstream.name().to_owned();
            (
                name,
                Arc::new(Api {
                    upstream,
                    pool: Pool::default(),
                    dialer,
                }),
            )
        });
        Self {
            desk: Arc::new(desk),
            allow: options.allow,
            apis: apis.collect(),
            dialer,
            tls: Arc::new(Tls::new(options.roots, options.timeouts.connect)),
            encrypted_hello: options.encrypted_hello,
            timeouts: options.timeouts,
            limits: options.limits,
        }
    }

    /// Puts a permitted connection on record and makes it.
    ///
    /// # Errors
    /// The answer for the client, when the record or the connection can not be made.
    pub(crate) async fn connect(
        &self,
        permit: &Permit,
        destination: &Authority,
        listing: Listing,
    ) -> Result<TcpStream, Answer> {
        self.desk
            .begin(permit)
            .map_err(|error| words::unrecorded(&error))?;
        let dialled = self.dialer.dial(destination, listing).await;
        dialled.map_err(|error| {
            match error {
                DialError::Forbidden { .. } => {
                    self.desk.block_permitted(permit, &error.to_string());
                }
                _ => self.desk.fail(permit, &error.to_string()),
            }
            words::not_connected(destination, &error)
        })
    }
}
