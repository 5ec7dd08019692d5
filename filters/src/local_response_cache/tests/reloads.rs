//! Requests for a fresh response.

use super::*;

#[tokio::test]
async fn no_cache_bypasses_the_cache_or_updates_it() {
    for (no_cache, then) in [(NoCache::Bypass, "0"), (NoCache::Update, "1"), (NoCache::Revalidate, "1")] {
        let count = Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let settings = Settings::new(Duration::from_secs(300)).on_no_cache(no_cache);
        let cached = Cached::with(1 << 20, settings, move |_| {
            let number = count.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            Response::new(Bytes::from(number.to_string()).into())
        });
        assert_eq!(cached.get(&[]).await.1, "0");
        assert_eq!(cached.get(&[("cache-control", "no-cache")]).await.1, "1");
        assert_eq!(cached.get(&[]).await.1, then);
        assert_eq!(cached.get(&[("cache-control", "no-store")]).await.1, "2");
        assert_eq!(cached.get(&[]).await.1, then);
    }
}

#[tokio::test(start_paused = true)]
async fn a_reload_revalidates_and_a_maximum_age_is_honoured() {
    let cached = Cached::new(|request| match request.headers().get("if-none-match") {
        Some(tag) if tag == "\"v\"" => {
            Response::builder().status(304).header("etag", "\"v\"").body(Pieces::from(Bytes::new())).unwrap()
        }
        _ => response(&[("etag", "\"v\""), ("cache-control", "max-age=100")], "body"),
    });
    cached.get(&[]).await;
    for (passed, cache_control, upstream_requests) in
        [(0, "max-age=0", 2), (0, "no-cache", 3), (9, "max-age=10", 3), (1, "max-age=10", 4), (1, "max-age=10", 4)]
    {
        tokio::time::advance(Duration::from_secs(passed)).await;
        let (head, body) = cached.get(&[("cache-control", cache_control)]).await;
        assert_eq!((head.status.as_u16(), body.as_str()), (200, "body"));
        assert_eq!(cached.upstream_requests(), upstream_requests, "{cache_control} after {passed} s");
    }
    // HEAD is forwarded. A browser that has the response gets a 304.
    cached.exchange("HEAD", &[("cache-control", "max-age=0")]).await;
    let (head, _) = cached.get(&[("cache-control", "max-age=0"), ("if-none-match", "\"v\"")]).await;
    assert_eq!((head.status.as_u16(), cached.upstream_requests()), (304, 6));
    assert_eq!(cached.counts(), [2, 2, 4, 0]);
}
