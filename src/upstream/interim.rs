//! Interim responses (1xx) of HTTP/1.1 upstreams (RFC 9110 §15.2). hyper reports none of HTTP/2 upstreams.

use std::sync::Arc;

use http::header::CONTENT_LENGTH;
use http::{HeaderMap, Request, Response, StatusCode};

use crate::http::body::Body;
use crate::http::interim::InterimSender;
use crate::upstream::headers::HeaderPolicy;

/// Passes the interim responses to `request` on to the client, if its protocol has them.
pub(super) fn relay_to_client(request: &mut Request<Body>, policy: &Arc<HeaderPolicy>) {
    let Some(client) = InterimSender::current() else { return };
    let policy = Arc::clone(policy);
    hyper::ext::on_informational(request, move |response| {
        relay(&client, &policy, response.status(), response.headers());
    });
}

/// Passes on one interim response. The server itself sends 100.
fn relay(client: &InterimSender, policy: &HeaderPolicy, status: StatusCode, headers: &HeaderMap) {
    if matches!(status, StatusCode::CONTINUE | StatusCode::SWITCHING_PROTOCOLS) {
        return;
    }
    let mut interim = Response::new(());
    *interim.status_mut() = status;
    interim.headers_mut().clone_from(headers);
    policy.clean_response(status, interim.headers_mut());
    interim.headers_mut().remove(CONTENT_LENGTH);
    client.send(interim);
}
