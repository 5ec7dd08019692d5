//! Form of the responses that the gateway makes itself to a request.

use std::sync::Arc;

use http::request::Parts;
use tollgate_filters::refusal::WantsRefusal;

use crate::gateway::Generation;
use crate::gateway::cors::client_used_tls;
use crate::gateway::proxy_status::OwnFields;
use crate::gateway::rpc::RpcCaller;
use crate::gateway::sanitize::HeaderSummary;
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
