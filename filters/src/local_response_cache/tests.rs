#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Mutex;
use std::task::{Context, Poll};

use http::HeaderMap;
use http_body::Frame;
use http_body_util::{BodyExt, Empty};
use tower::{Layer, ServiceExt, service_fn};

use super::*;

mod bodies;
mod property;
mod reloads;

/// A body of several frames.
struct Pieces(VecDeque<Result<Frame<Bytes>, &'static str>>);

impl From<Bytes> for Pieces {
    fn from(bytes: Bytes) -> Self {
        Self(if bytes.is_empty() { VecDeque::new() } else { VecDeque::from([Ok(Frame::data(bytes))]) })
    }
}

impl Body for Pieces {
    type Data = Bytes;
    type Error = &'static str;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, &'static str>>> {
        Poll::Ready(self.0.pop_front())
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_empty()
    }
}

type Respond = Arc<dyn Fn(&Request<Empty<Bytes>>) -> Response<Pieces> + Send + Sync>;

/// A cache before an upstream that records the headers of its requests.
struct Cached {
    layer: LocalResponseCacheLayer,
    cache: Arc<ResponseCache>,
    respond: Respond,
    seen: Arc<Mutex<Vec<HeaderMap>>>,
}

impl Cached {
    fn new(respond: impl Fn(&Request<Empty<Bytes>>) -> Response<Pieces> + Send + Sync + 'static) -> Self {
        Self::with(1 << 20, Settings::new(Duration::from_secs(300)), respond)
    }

    fn with(
        bytes: u64,
        settings: Settings,
        respond: impl Fn(&Request<Empty<Bytes>>) -> Response<Pieces> + Send + Sync + 'static,
    ) -> Self {
        let cache = Arc::new(ResponseCache::new(bytes));
        let layer = LocalResponseCacheLayer::new("route", settings, Arc::clone(&cache));
        Self { layer, cache, respond: Arc::new(respond), seen: Arc::default() }
    }

    async fn send(&self, method: &str, uri: &str, headers: &[(&str, &str)]) -> Response<StoringBody<Pieces>> {
        let (respond, seen) = (Arc::clone(&self.respond), Arc::clone(&self.seen));
        let upstream = service_fn(move |request: Request<Empty<Bytes>>| {
            seen.lock().unwrap().push(request.headers().clone());
            std::future::ready(Ok::<_, Infallible>(respond(&request)))
        });
        let mut request = Request::builder().method(method).uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        self.layer.layer(upstream).oneshot(request.body(Empty::new()).unwrap()).await.unwrap()
    }

    async fn exchange(&self, method: &str, headers: &[(&str, &str)]) -> (http::response::Parts, String) {
        let (head, body) = self.send(method, "/a", headers).await.into_parts();
        let bytes = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
        (head, String::from_utf8(bytes.to_vec()).unwrap())
    }

    async fn get(&self, headers: &[(&str, &str)]) -> (http::response::Parts, String) {
        self.exchange("GET", headers).await
    }

    fn upstream_requests(&self) -> usize {
        self.seen.lock().unwrap().len()
    }

    fn counts(&self) -> [u64; 4] {
        CacheOutcome::ALL.map(|outcome| self.cache.stats().count(outcome))
    }
}

fn response(headers: &[(&'static str, &'static str)], body: &'static str) -> Response<Pieces> {
    let mut response = Response::builder();
    for (name, value) in headers {
        response = response.header(*name, *value);
    }
    response.body(Pieces::from(Bytes::from_static(body.as_bytes()))).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_response_is_cached_for_its_lifetime_and_states_the_rest() {
    let cached = Cached::new(|_| response(&[("pragma", "x"), ("expires", "Fri, 01 Jan 2100 00:00:00 GMT")], "body"));
    let (first, body) = cached.get(&[]).await;
    assert_eq!((&first.headers["cache-control"], body.as_str()), (&"max-age=300".parse().unwrap(), "body"));
    assert!(!first.headers.contains_key("pragma") && !first.headers.contains_key("expires"));
    tokio::time::advance(Duration::from_secs(100)).await;
    let (second, body) = cached.get(&[]).await;
    assert_eq!((&second.headers["cache-control"], body.as_str()), (&"max-age=200".parse().unwrap(), "body"));
    assert_eq!((&second.headers["age"], &second.headers["content-length"]), (&100.into(), &4.into()));
    assert!(!second.headers.contains_key("pragma") && !second.headers.contains_key("expires"));
    let (head, body) = cached.exchange("HEAD", &[]).await;
    assert_eq!((head.headers["content-length"].clone(), body.as_str()), (4.into(), ""));
    assert_eq!(cached.upstream_requests(), 1);
    tokio::time::advance(Duration::from_secs(200)).await;
    cached.get(&[]).await;
    assert_eq!((cached.upstream_requests(), cached.counts()), (2, [2, 2, 0, 0]));
}

#[tokio::test]
async fn fields_that_select_the_upstream_separate_responses() {
    let mut cached = Cached::new(|request| {
        let target = request.headers().get("x-target").map_or("", |target| target.to_str().unwrap());
        Response::new(Bytes::from(target.to_owned()).into())
    });
    cached.layer = cached.layer.clone().vary_by([HeaderName::from_static("x-target")]);
    for _ in [1, 2] {
        for target in ["http://a", "http://b"] {
            assert_eq!(cached.get(&[("x-target", target)]).await.1, target);
        }
        assert_eq!(cached.get(&[]).await.1, "");
    }
    assert_eq!(cached.upstream_requests(), 3);
}

#[tokio::test]
async fn clients_get_only_their_own_responses() {
    let cached = Cached::new(|request| {
        let language = request.headers().get("accept-language").map_or("none", |value| value.to_str().unwrap());
        let body = format!("{language} {}", request.headers().get("cookie").map_or("", |v| v.to_str().unwrap()));
        Response::builder().header("vary", "Accept-Language").body(Bytes::from(body).into()).unwrap()
    });
    for turn in [1, 2] {
        for headers in [
            &[][..],
            &[("accept-language", "de")],
            &[("accept-language", "en")],
            &[("cookie", "a=1")],
            &[("cookie", "a=2")],
            &[("authorization", "Basic x")],
            &[("host", "other")],
            &[("range", "bytes=0-1")],
        ] {
            let (_, body) = cached.get(headers).await;
            let of = |name: &str| headers.iter().find(|(known, _)| *known == name).map(|(_, value)| *value);
            let expected = format!("{} {}", of("accept-language").unwrap_or("none"), of("cookie").unwrap_or_default());
            assert_eq!(body, expected, "{turn} {headers:?}");
        }
        assert_eq!(cached.upstream_requests(), 8, "turn {turn}");
    }
}

#[tokio::test]
async fn responses_that_must_not_be_stored_are_not() {
    for headers in [
        &[("cache-control", "no-store")][..],
        &[("cache-control", "max-age=60, private")],
        &[("vary", "*")],
        &[("set-cookie", "session=1")],
        &[("cache-control", "private, ext=\"café\"")],
        &[("cache-control", "ext=é"), ("cache-control", "no-store, x=é")],
        &[("vary", "*, é")],
        &[("vary", "é"), ("vary", "*")],
        &[("vary", "é")],
    ] {
        let cached = Cached::new(|_| response(headers, "body"));
        cached.get(&[]).await;
        let (head, _) = cached.get(&[]).await;
        assert_eq!(cached.upstream_requests(), 2, "{headers:?}");
        assert_eq!(head.headers.len(), headers.len(), "and nothing is restated");
    }
    let local = Cached::new(|_| {
        let mut response = response(&[], "body");
        response.extensions_mut().insert(crate::context::LocalReply { reason: "redirect" });
        response
    });
    local.get(&[]).await;
    local.get(&[]).await;
    assert_eq!(local.upstream_requests(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_stale_response_is_revalidated_and_stored_again() {
    let cached = Cached::new(|request| {
        if request.headers().get("if-none-match").is_some_and(|tag| tag == "\"v1\"") {
            return Response::builder()
                .status(304)
                .header("etag", "\"v1\"")
                .header("x-new", "1")
                .body(Pieces::from(Bytes::new()))
                .unwrap();
        }
        response(&[("etag", "\"v1\""), ("cache-control", "max-age=10"), ("content-type", "text/plain")], "body")
    });
    cached.get(&[]).await;
    tokio::time::advance(Duration::from_secs(10)).await;
    let (head, body) = cached.get(&[("if-none-match", "\"old\""), ("if-modified-since", "yesterday")]).await;
    assert_eq!((head.status.as_u16(), body.as_str(), &head.headers["x-new"]), (200, "body", &"1".parse().unwrap()));
    assert_eq!(head.headers["age"], "0");
    {
        let seen = cached.seen.lock().unwrap();
        assert_eq!(seen[1]["if-none-match"], "\"v1\"");
        assert!(!seen[1].contains_key("if-modified-since"), "there is no date to ask with");
    }
    let (head, body) = cached.get(&[("if-none-match", "W/\"v1\"")]).await;
    assert_eq!((head.status.as_u16(), body.as_str()), (304, ""));
    assert!(!head.headers.contains_key("content-type") && head.headers.contains_key("etag"));
    assert_eq!((cached.upstream_requests(), cached.counts()), (2, [1, 1, 1, 0]));
}

#[tokio::test]
async fn a_change_of_a_resource_invalidates_its_responses() {
    let cached = Cached::new(|request| {
        let status = if request.headers().contains_key("x-fail") { 409 } else { 200 };
        Response::builder().status(status).body(Bytes::from_static(b"body").into()).unwrap()
    });
    cached.get(&[]).await;
    cached.get(&[("cookie", "a")]).await;
    cached.exchange("POST", &[("x-fail", "1")]).await;
    cached.get(&[]).await;
    assert_eq!(cached.upstream_requests(), 3, "nothing was changed");
    cached.exchange("POST", &[]).await;
    cached.get(&[]).await;
    cached.get(&[("cookie", "a")]).await;
    assert_eq!(cached.upstream_requests(), 6);
    // A response that was pending at the same time is not stored.
    let on_its_way = cached.send("GET", "/b", &[]).await;
    cached.send("PUT", "/b", &[]).await;
    drop(on_its_way.into_body().collect().await);
    cached.send("GET", "/b", &[]).await;
    assert_eq!(cached.upstream_requests(), 9);
}

#[tokio::test]
async fn memory_is_limited() {
    let large = || Response::new(Bytes::from(vec![b'x'; 60_000]).into());
    let cached = Cached::with(100_000, Settings::new(Duration::from_secs(300)), move |_| large());
    for n in 0..20 {
        drop(cached.send("GET", &format!("/{n}"), &[]).await.into_body().collect().await);
        assert!(cached.cache.bytes() <= 100_000);
    }
    assert!(cached.cache.bytes() > 60_000);
    // One of two pending responses is not copied.
    let (mut one, mut two) = (cached.send("GET", "/x", &[]).await, cached.send("GET", "/y", &[]).await);
    let first = (one.body_mut().frame().await.is_some(), two.body_mut().frame().await.is_some());
    assert_eq!((first, one.body().is_storing(), two.body().is_storing()), ((true, true), false, false));
    let cached = Cached::with(50_000, Settings::new(Duration::from_secs(300)), move |_| large());
    for _ in 0..2 {
        drop(cached.send("GET", "/a", &[]).await.into_body().collect().await);
    }
    assert_eq!(cached.upstream_requests(), 2, "too large");
}
