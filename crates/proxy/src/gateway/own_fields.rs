//! Fields that the gateway adds to responses of its own and of upstreams.

use std::sync::Arc;

use http::header::STRICT_TRANSPORT_SECURITY;
use http::{HeaderValue, Response};
use tollgate_config::Server;

use crate::gateway::proxy_status;
use crate::http::body::Body;

/// Fields that the gateway adds to responses.
#[derive(Debug)]
pub(super) struct OwnFields {
    /// Name of the gateway in `Proxy-Status`; `None` without that field.
    pub(super) proxy_status: Option<Box<str>>,
    /// `Strict-Transport-Security`; `None` without that field.
    hsts: Option<HeaderValue>,
}

// === impl OwnFields ===

impl OwnFields {
    /// Returns the fields of a configuration; `None` for none.
    pub(super) fn of(server: &Server) -> Option<Arc<Self>> {
        let (proxy_status, hsts) = (server.proxy_status().map(Box::from), server.hsts.clone());
        (proxy_status.is_some() || hsts.is_some()).then(|| Arc::new(Self { proxy_status, hsts }))
    }

    /// Adds the fields to the response to a request. A client that does not use TLS learns nothing of it (RFC 6797 §7.2).
    pub(super) fn add(&self, uses_tls: bool, response: &mut Response<Body>) {
        if let Some(name) = &self.proxy_status {
            proxy_status::add(name, response);
        }
        if let Some(hsts) = self.hsts.as_ref().filter(|_| uses_tls)
            && !response.headers().contains_key(STRICT_TRANSPORT_SECURITY)
        {
            // A full map (32,768 headers) does not get it.
            let _ = response.headers_mut().try_insert(STRICT_TRANSPORT_SECURITY, hsts.clone());
        }
    }
}
