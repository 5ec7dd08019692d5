//! Form of the responses that the gateway makes itself to a request.

use std::sync::Arc;

use http::header::STRICT_TRANSPORT_SECURITY;
use http::request::Parts;
use http::{HeaderValue, Response};
use tollgate_config::Server;
use tollgate_filters::refusal::WantsRefusal;

use crate::gateway::cors::client_used_tls;
use crate::gateway::rpc::RpcCaller;
use crate::gateway::sanitize::HeaderSummary;
use crate::gateway::{Generation, proxy_status};
use crate::http::body::Body;
use crate::http::handler::ConnectionInfo;

/// Form of the responses that the gateway makes itself.
#[derive(Debug, Default)]
pub(super) struct ErrorForm {
    /// True if the client accepts `application/problem+json`.
    pub(super) accepts_problem: bool,
    /// The client, if it speaks an RPC protocol.
    pub(super) rpc: Option<Box<RpcCaller>>,
    /// Fields that the response gets; `None` for none.
    pub(super) fields: Option<Arc<OwnFields>>,
    /// True if the client uses TLS.
    pub(super) uses_tls: bool,
}

/// Fields that the gateway adds to responses.
#[derive(Debug)]
pub(super) struct OwnFields {
    /// Name of the gateway in `Proxy-Status`; `None` without that field.
    proxy_status: Option<Box<str>>,
    /// `Strict-Transport-Security`; `None` without that field.
    hsts: Option<HeaderValue>,
}

impl ErrorForm {
    /// Returns the form for a request with the fields of `summary`; `None` if it is refused before they are known. Marks the
    /// request if limiters are to describe their refusals.
    #[inline]
    pub(super) fn of(
        generation: &Generation,
        head: &mut Parts,
        connection: &ConnectionInfo,
        summary: Option<&HeaderSummary>,
    ) -> Self {
        let may_be_rpc = summary.is_none_or(|summary| summary.may_be_rpc);
        let rpc = if may_be_rpc { RpcCaller::of(head, generation.config.server.error_format.0.into()) } else { None };
        let fields = generation.own_fields.clone();
        if rpc.is_some() || fields.as_ref().is_some_and(|fields| fields.proxy_status.is_some()) {
            head.extensions.insert(WantsRefusal);
        }
        let uses_tls = fields.is_some() && client_used_tls(connection, &head.headers);
        let accepts_problem = summary.is_some_and(|summary| summary.accepts_problem) && rpc.is_none();
        Self { accepts_problem, rpc, fields, uses_tls }
    }
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
        if let Some(hsts) = self.hsts.as_ref().filter(|_| uses_tls) {
            response.headers_mut().entry(STRICT_TRANSPORT_SECURITY).or_insert_with(|| hsts.clone());
        }
    }
}
