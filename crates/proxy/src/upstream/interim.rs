//! Interim responses (1xx) of upstreams (RFC 9110 §15.2).

use std::sync::Arc;

use http::header::CONTENT_LENGTH;
use http::{HeaderMap, Response, StatusCode};

use crate::http::interim::InterimSender;
use crate::upstream::headers::HeaderPolicy;

/// Passes the interim responses to one request on to its client.
#[derive(Debug)]
pub(super) struct InterimRelay {
    client: InterimSender,
    policy: Arc<HeaderPolicy>,
}

impl InterimRelay {
    /// Returns the relay to the client whose request is handled; `None` if its protocol has no interim responses.
    pub(super) fn current(policy: &Arc<HeaderPolicy>) -> Option<Self> {
        InterimSender::current().map(|client| Self { client, policy: Arc::clone(policy) })
    }

    /// Passes on one interim response. The server itself sends 100.
    pub(super) fn relay(&self, status: StatusCode, headers: HeaderMap) {
        if matches!(status, StatusCode::CONTINUE | StatusCode::SWITCHING_PROTOCOLS) {
            return;
        }
        let mut interim = Response::new(());
        *interim.status_mut() = status;
        *interim.headers_mut() = headers;
        self.policy.clean_response(status, interim.headers_mut());
        interim.headers_mut().remove(CONTENT_LENGTH);
        self.client.send(interim);
    }
}
