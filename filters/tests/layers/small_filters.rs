//! `RedirectTo`, `SetStatus` and `RequestSize`.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderName, Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt, Full};
use tollgate_filters::context::LocalReply;
use tollgate_filters::redirect_to::{self, RedirectToError, RedirectToLayer};
use tollgate_filters::request_size::{BodyTooLarge, RequestSizeLayer, SizeLimited};
use tollgate_filters::set_status::{self, SetStatusLayer};
use tower::{BoxError, Layer, ServiceExt, service_fn};

use crate::support::{Body, hello, reason, text, upstream, values};

#[tokio::test]
async fn redirects_call_no_upstream_and_send_the_configured_url() {
    for (url, params, uri, location) in [
        ("http://example.org", false, "/x?a=1", "http://example.org"),
        ("/relative?x=1#f", false, "/x?a=1", "/relative?x=1#f"),
        ("http://example.org", true, "/x?a=1&b", "http://example.org?a=1&b"),
        ("http://example.org?c=2#top", true, "/x?a=1", "http://example.org?c=2&a=1#top"),
        ("http://example.org?", true, "/x?a=1", "http://example.org?a=1"),
        ("http://example.org?c&#f", true, "/x?a=1", "http://example.org?c&a=1#f"),
        ("http://example.org#f", true, "/x", "http://example.org#f"),
        ("http://example.org#f", true, "/x?", "http://example.org#f"),
    ] {
        let calls: Arc<AtomicUsize> = Arc::default();
        let settings = redirect_to::Settings::new(StatusCode::PERMANENT_REDIRECT, url, params).unwrap();
        let request = Request::builder().uri(uri).body(()).unwrap();
        let response = RedirectToLayer::new(settings).layer(hello(&calls)).oneshot(request).await.unwrap();
        assert_eq!(response.status(), StatusCode::PERMANENT_REDIRECT);
        assert_eq!(values(&response, "location"), [location]);
        assert_eq!(reason(&response), Some("redirect"));
        assert!(!response.headers().contains_key("content-length"), "an outer layer may change the body");
        assert_eq!(text(response).await, "");
        assert_eq!(calls.load(Ordering::SeqCst), 0);
    }
}

#[test]
fn only_a_3xx_to_a_url_is_a_redirect() {
    let status = redirect_to::Settings::new(StatusCode::OK, "/", false);
    assert_eq!(status.unwrap_err(), RedirectToError::Status(200));
    for url in ["", "http://a b", "/x\r\ny", "/é"] {
        let error = redirect_to::Settings::new(StatusCode::FOUND, url, false).unwrap_err();
        assert_eq!(error, RedirectToError::Url(url.into()));
    }
}

async fn with_status(
    header: Option<&'static str>,
    response: impl Fn() -> Response<Body> + Clone + Send + 'static,
) -> Response<Body> {
    let teapot = StatusCode::IM_A_TEAPOT;
    let settings = set_status::Settings::new(teapot, header.map(HeaderName::from_static));
    let inner = upstream(&Arc::default(), move |_: &Request<()>| response());
    SetStatusLayer::new(settings).layer(inner).oneshot(Request::new(())).await.unwrap()
}

#[tokio::test]
async fn the_status_is_replaced_and_the_body_kept() {
    let response = with_status(None, || Response::new(Full::from("hello"))).await;
    assert_eq!(response.status(), StatusCode::IM_A_TEAPOT);
    assert!(response.headers().is_empty());
    assert_eq!(text(response).await, "hello");
}

#[tokio::test]
async fn the_original_status_is_sent_in_brackets() {
    let response = with_status(Some("original-status"), Response::default).await;
    assert_eq!(values(&response, "original-status"), ["[200]"]);
}

#[tokio::test]
async fn statuses_of_local_replies_and_upgrades_stay() {
    for (status, local) in [(504, true), (429, true), (101, false)] {
        let response = with_status(Some("original-status"), move || {
            let mut response = Response::<Body>::default();
            *response.status_mut() = StatusCode::from_u16(status).unwrap();
            if local {
                response.extensions_mut().insert(LocalReply { reason: "response-timeout" });
            }
            response
        });
        let response = response.await;
        assert_eq!(response.status(), status);
        assert!(response.headers().is_empty());
    }
}

/// Sends a body to a service that responds with its length or returns its error.
async fn send(max_bytes: u64, length: Option<&str>, chunks: &[&'static str]) -> Result<Response<Body>, BoxError> {
    let chunks: Vec<_> = chunks.iter().map(|chunk| Bytes::from_static(chunk.as_bytes())).collect();
    let mut request = Request::new(Chunks(chunks.into_iter()));
    if let Some(length) = length {
        request.headers_mut().insert("content-length", length.parse()?);
    }
    let inner = service_fn(|request: Request<SizeLimited<Chunks>>| async {
        let body = request.into_body().collect().await?.to_bytes();
        Ok::<_, BoxError>(Response::new(Full::from(body.len().to_string())))
    });
    RequestSizeLayer::new(max_bytes).layer(inner).oneshot(request).await
}

/// Body of chunks with an unknown length.
struct Chunks(std::vec::IntoIter<Bytes>);

impl http_body::Body for Chunks {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.next().map(|chunk| Ok(Frame::data(chunk))))
    }
}

#[tokio::test]
async fn an_announced_length_above_the_limit_gives_413_with_springs_message() {
    let response = send(5, Some("6"), &["123456"]).await.unwrap();
    assert_eq!(response.status(), StatusCode::PAYLOAD_TOO_LARGE);
    assert!(!response.headers().contains_key("content-length"), "an outer layer may change the body");
    let message = "Request size is larger than permissible limit. Request size is 6 B where permissible limit is 5 B";
    assert_eq!(values(&response, "errorMessage"), [message]);
    assert_eq!(reason(&response), Some("request-too-large"));
    assert_eq!(text(response).await, "");
}

#[tokio::test]
async fn a_body_of_exactly_the_limit_passes() {
    for length in [Some("5"), None, Some("nonsense")] {
        let response = send(5, length, &["12", "", "345"]).await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(text(response).await, "5");
    }
}

#[tokio::test]
async fn bytes_are_counted_despite_the_announced_length() {
    for length in [None, Some("2")] {
        let error = send(5, length, &["123", "456"]).await.unwrap_err();
        assert_eq!(BodyTooLarge::find(error.as_ref()), Some(&BodyTooLarge { max_bytes: 5 }));
    }
}

#[tokio::test]
async fn the_error_is_found_within_wrapping_errors() {
    #[derive(Debug, thiserror::Error)]
    #[error("sending failed")]
    struct Wrapped(#[source] BoxError);
    let error = Wrapped(send(1, None, &["12"]).await.unwrap_err());
    assert_eq!(BodyTooLarge::find(&error), Some(&BodyTooLarge { max_bytes: 1 }));
    assert_eq!(BodyTooLarge::find(&Wrapped("other".into())), None);
}

#[tokio::test]
async fn a_body_that_was_too_large_has_ended() {
    let mut body = SizeLimited::new(Full::new(Bytes::from_static(b"123")), 2);
    assert!(body.frame().await.unwrap().is_err());
    assert!(body.frame().await.is_none());
}
