//! Log line of a request once its head is sanitized.

use http::header::HOST;
use http::request::Parts;

use crate::gateway::Generation;
use crate::http::body::Body;
use crate::http::handler::ConnectionInfo;
use crate::instrumentation::record::Record;
use tollgate_routing::RequestView;

/// Completes the line of a request, or drops it if the request gets none.
pub(super) fn complete(
    generation: &Generation,
    head: &Parts,
    body: &Body,
    connection: &ConnectionInfo,
    record: &mut Record,
) {
    if let Some(unlogged) = &generation.unlogged {
        let peer = generation.routed_peer(head, connection);
        let view = RequestView::new(&head.method, &head.uri, &head.headers, peer, fastrand::u64(..));
        if unlogged.find(&view).is_ok_and(|entry| entry.is_some()) {
            return record.unlogged();
        }
    }
    if let Some(details) = record.details() {
        details.host = head.headers.get(HOST).cloned();
        details.upload = body.upload();
    }
}
