//! Targets of routes.

use std::sync::Arc;

use tollgate_filters::key_resolver::KeyResolver;

use crate::model::scheme::Scheme;
use crate::model::upstreams::Upstream;

/// Where a route leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// The upstream within the gateway that answers with what it received.
    Echo,
    /// Another route of the gateway, by this path.
    Forward(Arc<str>),
    /// Nowhere: the filters answer, and otherwise an empty 200 does.
    Nowhere,
    /// An HTTP server.
    Http {
        /// Whether it speaks TLS.
        scheme: Scheme,
        /// Its name or address, an IPv6 address without brackets.
        host: String,
        /// Its port.
        port: u16,
    },
    /// One of several servers.
    Balanced {
        /// Which.
        upstream: Arc<Upstream>,
        /// How its endpoints are spoken to; `None`: each as its own URI says.
        scheme: Option<Scheme>,
    },
}

impl Target {
    /// What makes of a request the key that its endpoint is chosen by, where that is so.
    #[must_use]
    pub fn key_resolver(&self) -> Option<&KeyResolver> {
        match self {
            Self::Balanced { upstream, .. } => upstream.balance.key_resolver(),
            Self::Echo | Self::Http { .. } | Self::Forward(_) | Self::Nowhere => None,
        }
    }
}
