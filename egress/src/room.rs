//! What every connection of a session shares.

use std::collections::HashMap;
use std::sync::Arc;

use crate::allow::AllowList;
use crate::desk::Desk;
use crate::dial::Dialer;
use crate::link::Pool;
use crate::options::{EncryptedHello, Limits, Options, Timeouts};
use crate::tls::Tls;
use crate::upstream::Upstream;

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
}
