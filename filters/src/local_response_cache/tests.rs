#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Mutex;

use http::HeaderMap;
use http_body::Frame;
use http_body_util::{BodyExt, Empty};
use tower::{ServiceExt, service_fn};

use super::*;

mod property;

/// A body in pieces, as an upstream sends them.
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

type Answer = Arc<dyn Fn(&Request<Empty<Bytes>>) -> Response<Pieces> + Send + Sync>;

/// A cache before an upstream that notes what it is asked.
struct Cached {
    layer: LocalResponseCacheLayer,
    cache: Arc<ResponseCache>,
    answer: Answer,
    seen: Arc<Mutex<Vec<HeaderMap>>>,
}

impl Cached {
    fn new(answer: impl Fn(&Request<Empty<Bytes>>) -> Response<Pieces> + Send + Sync + 'static) -> Self {
        Self::with(1 << 20, Settings::new(Duration::from_secs(300)), answer)
    }

    fn with(
        bytes: u64,
        settings: Settings,
        answer: impl Fn(&Request<Empty<Bytes>>) -> Response<Pieces> + Send + Sync + 'static,
    ) -> Self {
        let cache = Arc::new(ResponseCache::new(bytes));
        let layer = LocalResponseCacheLayer::new("route", settings, Arc::clone(&cache));
        Self { layer, cache, answer: Arc::new(answer), seen: Arc::default() }
    }

    async fn begin(&self, method: &str, uri: &str, headers: &[(&str, &str)]) -> Response<Filling<Pieces>> {
        let (answer, seen) = (Arc::clone(&self.answer), Arc::clone(&self.seen));
        let upstream = service_fn(move |request: Request<Empty<Bytes>>| {
            seen.lock().unwrap().push(request.headers().clone());
            std::future::ready(Ok::<_, Infallible>(answer(&request)))
        });
        let mut request = Request::builder().method(method).uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        self.layer.layer(upstream).oneshot(request.body(Empty::new()).unwrap()).await.unwrap()
    }

    async fn ask(&self, method: &str, headers: &[(&str, &str)]) -> (http::response::Parts, String) {
        let (head, body) = self.begin(method, "/a", headers).await.into_parts();
        let bytes = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
        (head, String::from_utf8(bytes.to_vec()).unwrap())
    }

    async fn get(&self, headers: &[(&str, &str)]) -> (http::response::Parts, String) {
        self.ask("GET", headers).await
    }

    fn asked(&self) -> usize {
        self.seen.lock().unwrap().len()
    }

    fn counts(&self) -> [u64; 4] {
        CacheOutcome::ALL.map(|outcome| self.cache.stats().count(outcome))
    }
}

fn answer(headers: &[(&'static str, &'static str)], body: &'static str) -> Response<Pieces> {
    let mut response = Response::builder();
    for (name, value) in headers {
        response = response.header(*name, *value);
    }
    response.body(Pieces::from(Bytes::from_static(body.as_bytes()))).unwrap()
}

#[tokio::test(start_paused = true)]
async fn an_answer_is_kept_for_its_time_and_says_how_much_is_left() {
    let cached = Cached::new(|_| answer(&[("pragma", "x"), ("expires", "Fri, 01 Jan 2100 00:00:00 GMT")], "body"));
    let (first, body) = cached.get(&[]).await;
    assert_eq!((&first.headers["cache-control"], body.as_str()), (&"max-age=300".parse().unwrap(), "body"));
    assert!(!first.headers.contains_key("pragma") && !first.headers.contains_key("expires"));
    tokio::time::advance(Duration::from_secs(100)).await;
    let (second, body) = cached.get(&[]).await;
    assert_eq!((&second.headers["cache-control"], body.as_str()), (&"max-age=200".parse().unwrap(), "body"));
    assert_eq!((&second.headers["age"], &second.headers["content-length"]), (&100.into(), &4.into()));
    assert!(!second.headers.contains_key("pragma") && !second.headers.contains_key("expires"));
    let (head, body) = cached.ask("HEAD", &[]).await;
    assert_eq!((head.headers["content-length"].clone(), body.as_str()), (4.into(), ""));
    assert_eq!(cached.asked(), 1);
    tokio::time::advance(Duration::from_secs(200)).await;
    cached.get(&[]).await;
    assert_eq!((cached.asked(), cached.counts()), (2, [2, 2, 0, 0]));
}

#[tokio::test]
async fn what_names_the_upstream_keeps_answers_apart() {
    let mut cached = Cached::new(|request| {
        let target = request.headers().get("x-target").map_or("", |target| target.to_str().unwrap());
        Response::new(Bytes::from(target.to_owned()).into())
    });
    cached.layer = cached.layer.clone().differing_by([HeaderName::from_static("x-target")]);
    for _ in [1, 2] {
        for target in ["http://a", "http://b"] {
            assert_eq!(cached.get(&[("x-target", target)]).await.1, target);
        }
        assert_eq!(cached.get(&[]).await.1, "");
    }
    assert_eq!(cached.asked(), 3);
}

#[tokio::test]
async fn everyone_gets_what_is_his() {
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
        assert_eq!(cached.asked(), 8, "turn {turn}");
    }
}

#[tokio::test]
async fn what_may_not_be_kept_is_not() {
    for headers in [
        &[("cache-control", "no-store")][..],
        &[("cache-control", "max-age=60, private")],
        &[("vary", "*")],
        &[("set-cookie", "session=1")],
    ] {
        let cached = Cached::new(|_| answer(headers, "body"));
        cached.get(&[]).await;
        let (head, _) = cached.get(&[]).await;
        assert_eq!(cached.asked(), 2, "{headers:?}");
        assert_eq!(head.headers.len(), 1, "and nothing is restated");
    }
    let local = Cached::new(|_| {
        let mut response = answer(&[], "body");
        response.extensions_mut().insert(crate::context::LocalReply { reason: "redirect" });
        response
    });
    local.get(&[]).await;
    local.get(&[]).await;
    assert_eq!(local.asked(), 2);
}

#[tokio::test]
async fn bodies_that_fail_are_given_up_have_trailers_or_another_length_are_not_kept() {
    type Body = fn() -> Vec<Result<Frame<Bytes>, &'static str>>;
    let bodies: [Body; 3] = [
        || vec![Ok(Frame::data("bo".into())), Err("broken")],
        || vec![Ok(Frame::data("body".into())), Ok(Frame::trailers(HeaderMap::new()))],
        || vec![Ok(Frame::data("bo".into()))],
    ];
    for (at, body) in bodies.into_iter().enumerate() {
        let length = if at == 2 { "4" } else { "" };
        let cached = Cached::new(move |_| {
            Response::builder().header("content-length", length).body(Pieces(body().into())).unwrap()
        });
        cached.get(&[]).await;
        cached.get(&[]).await;
        assert_eq!(cached.asked(), 2, "{at}");
    }
    let cached = Cached::new(|_| answer(&[], "body"));
    drop(cached.begin("GET", "/a", &[]).await);
    cached.get(&[]).await;
    assert_eq!(cached.asked(), 2, "a client that left");
    cached.get(&[]).await;
    assert_eq!(cached.asked(), 2);
}

#[tokio::test(start_paused = true)]
async fn an_old_answer_is_checked_and_kept_on() {
    let cached = Cached::new(|request| {
        if request.headers().get("if-none-match").is_some_and(|tag| tag == "\"v1\"") {
            return Response::builder()
                .status(304)
                .header("etag", "\"v1\"")
                .header("x-new", "1")
                .body(Pieces::from(Bytes::new()))
                .unwrap();
        }
        answer(&[("etag", "\"v1\""), ("cache-control", "max-age=10"), ("content-type", "text/plain")], "body")
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
    assert_eq!((cached.asked(), cached.counts()), (2, [1, 1, 1, 0]));
}

#[tokio::test]
async fn a_client_may_pass_by_the_cache_and_renew_it_where_that_is_allowed() {
    for renews in [false, true] {
        let count = Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let settings = Settings::new(Duration::from_secs(300)).no_cache_renews(renews);
        let cached = Cached::with(1 << 20, settings, move |_| {
            let number = count.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            Response::new(Bytes::from(number.to_string()).into())
        });
        assert_eq!(cached.get(&[]).await.1, "0");
        assert_eq!(cached.get(&[("cache-control", "no-cache")]).await.1, "1");
        assert_eq!(cached.get(&[]).await.1, if renews { "1" } else { "0" });
        assert_eq!(cached.get(&[("cache-control", "no-store")]).await.1, "2");
        assert_eq!(cached.get(&[]).await.1, if renews { "1" } else { "0" });
    }
}

#[tokio::test]
async fn what_changes_a_resource_lets_its_answers_be_forgotten() {
    let cached = Cached::new(|request| {
        let status = if request.headers().contains_key("x-fail") { 409 } else { 200 };
        Response::builder().status(status).body(Bytes::from_static(b"body").into()).unwrap()
    });
    cached.get(&[]).await;
    cached.get(&[("cookie", "a")]).await;
    cached.ask("POST", &[("x-fail", "1")]).await;
    cached.get(&[]).await;
    assert_eq!(cached.asked(), 3, "nothing was changed");
    cached.ask("POST", &[]).await;
    cached.get(&[]).await;
    cached.get(&[("cookie", "a")]).await;
    assert_eq!(cached.asked(), 6);
    // An answer that was on its way meanwhile is not kept.
    let on_its_way = cached.begin("GET", "/b", &[]).await;
    cached.begin("PUT", "/b", &[]).await;
    drop(on_its_way.into_body().collect().await);
    cached.begin("GET", "/b", &[]).await;
    assert_eq!(cached.asked(), 9);
}

#[tokio::test]
async fn memory_is_bounded() {
    let large = || Response::new(Bytes::from(vec![b'x'; 60_000]).into());
    let cached = Cached::with(100_000, Settings::new(Duration::from_secs(300)), move |_| large());
    for n in 0..20 {
        drop(cached.begin("GET", &format!("/{n}"), &[]).await.into_body().collect().await);
        assert!(cached.cache.bytes() <= 100_000);
    }
    assert!(cached.cache.bytes() > 60_000);
    // Of two on their way one is not gathered.
    let (mut one, mut two) = (cached.begin("GET", "/x", &[]).await, cached.begin("GET", "/y", &[]).await);
    let first = (one.body_mut().frame().await.is_some(), two.body_mut().frame().await.is_some());
    assert_eq!((first, one.body().fills(), two.body().fills()), ((true, true), false, false));
    let cached = Cached::with(50_000, Settings::new(Duration::from_secs(300)), move |_| large());
    for _ in 0..2 {
        drop(cached.begin("GET", "/a", &[]).await.into_body().collect().await);
    }
    assert_eq!(cached.asked(), 2, "too large");
}
