//! The headers of a discarded response: those to drop, and those to keep.

use std::sync::Arc;

use http::{HeaderMap, HeaderName, Request, Response};
use parking_lot::Mutex;

use crate::context::LocalReply;
use crate::fault::Fault;
use crate::response_filter::{ResponseFilter, ResponseFilterLayer, ResponseMapper};

/// Headers that filters added to discarded responses: an extension of the next attempt's request. The first layer that
/// takes them adds them to the response.
#[derive(Clone, Debug, Default)]
pub(crate) struct CarriedHeaders(Arc<Mutex<HeaderMap>>);

/// The names of the header fields that the upstream sent: an extension of the response.
#[derive(Clone, Debug)]
struct ReceivedNames(Arc<[HeaderName]>);

/// Marks the headers that the inner service sent, and adds those kept from the responses to earlier attempts. This layer belongs innermost
/// in a stack with `Retry` or `CircuitBreaker`: without it, all headers of a discarded response are discarded.
pub type ReceivedHeadersLayer = ResponseFilterLayer<ReceivedMark>;

/// Filter that marks the headers of responses.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReceivedMark;

/// Marks the received headers and adds carried ones.
#[derive(Debug)]
pub struct MarkReceived {
    carried: Option<CarriedHeaders>,
}

/// Takes the headers that filters added to `response`, which is about to be discarded. Returns none for a local response,
/// and for one without a mark of received headers.
pub(crate) fn take_added_headers<R>(response: &mut Response<R>) -> HeaderMap {
    let extensions = response.extensions_mut();
    let fault = extensions.get::<Fault>().is_some();
    let is_local = extensions.get::<LocalReply>().is_some();
    let received = extensions.remove::<ReceivedNames>();
    if is_local && !fault {
        return HeaderMap::new();
    }
    let names = match &received {
        Some(ReceivedNames(names)) => &**names,
        None if fault => &[],
        None => return HeaderMap::new(),
    };
    let mut added = std::mem::take(response.headers_mut());
    for name in names {
        added.remove(name);
    }
    added
}

/// Marks all current headers of `response` as received.
pub(crate) fn mark_received<R>(response: &mut Response<R>) {
    let names = response.headers().keys().cloned().collect();
    response.extensions_mut().insert(ReceivedNames(names));
}

// === impl CarriedHeaders ===

impl CarriedHeaders {
    pub(crate) fn new(headers: HeaderMap) -> Self {
        Self(Arc::new(Mutex::new(headers)))
    }

    /// Puts the carried headers before those of `response`. A second call adds nothing.
    pub(crate) fn prepend_to<R>(&self, response: &mut Response<R>) {
        let carried = std::mem::take(&mut *self.0.lock());
        if carried.is_empty() {
            return;
        }
        let response_headers = std::mem::replace(response.headers_mut(), carried);
        let mut last = None;
        for (name, value) in response_headers {
            last = name.or(last);
            // A full map does not get the header.
            let _ = last.as_ref().map(|name| response.headers_mut().try_append(name, value));
        }
    }
}

// === impl ReceivedMark ===

impl ResponseFilter for ReceivedMark {
    type Mapper = MarkReceived;

    fn mapper<B>(&self, request: &mut Request<B>) -> Option<MarkReceived> {
        Some(MarkReceived { carried: request.extensions_mut().remove::<CarriedHeaders>() })
    }
}

// === impl MarkReceived ===

impl ResponseMapper for MarkReceived {
    fn apply<R>(self, response: &mut Response<R>) {
        mark_received(response);
        if let Some(carried) = self.carried {
            carried.prepend_to(response);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use http::HeaderValue;

    use super::*;

    fn response(headers: &[(&'static str, &'static str)]) -> Response<()> {
        let mut response = Response::new(());
        for (name, value) in headers {
            response.headers_mut().append(*name, HeaderValue::from_static(value));
        }
        response
    }

    #[test]
    fn headers_of_the_upstream_are_dropped_and_those_of_filters_are_kept() {
        let mut discarded = response(&[("x-up", "1"), ("x-both", "1")]);
        mark_received(&mut discarded);
        discarded.headers_mut().append("x-both", HeaderValue::from_static("2"));
        discarded.headers_mut().append("x-own", HeaderValue::from_static("3"));
        let added = take_added_headers(&mut discarded);
        assert_eq!(added.len(), 1, "{added:?}");
        let mut next = response(&[("x-own", "4"), ("x-own", "5"), ("x-up", "6")]);
        let carried = CarriedHeaders::new(added);
        carried.prepend_to(&mut next);
        carried.prepend_to(&mut next);
        assert_eq!(next.headers().get_all("x-own").iter().collect::<Vec<_>>(), ["3", "4", "5"]);
        assert_eq!(next.headers()["x-up"], "6");
    }

    #[test]
    fn a_local_response_keeps_no_headers_and_a_fault_keeps_all() {
        let mut denial = response(&[("x-own", "1")]);
        denial.extensions_mut().insert(LocalReply { reason: "rate-limited" });
        assert!(take_added_headers(&mut denial).is_empty());
        let mut fault = response(&[("x-own", "1")]);
        fault.extensions_mut().insert(LocalReply { reason: "upstream-broken" });
        fault.extensions_mut().insert(Fault::ConnectionClosed);
        assert_eq!(take_added_headers(&mut fault)["x-own"], "1");
        assert!(take_added_headers(&mut response(&[("x-up", "1")])).is_empty(), "the origin of the header is unknown");
    }
}
