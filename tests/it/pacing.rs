//! `leaky-bucket`: delayed requests.

use std::sync::{Arc, Barrier, Mutex};
use std::time::{Duration, Instant};

use crate::support::client::Response;
use crate::support::eventually;
use crate::support::gateway::Gateway;
use crate::support::redis::Redis;
use crate::support::upstream::{Upstream, response};

/// An upstream that records arrival times, and a gateway that spaces requests.
struct Paced {
    gateway: Gateway,
    served: Arc<Mutex<Vec<(String, Instant)>>>,
    _upstream: Upstream,
}

impl Paced {
    fn start(redis: Option<&Redis>, arguments: &str) -> Self {
        let served: Arc<Mutex<Vec<_>>> = Arc::default();
        let noted = Arc::clone(&served);
        let upstream = Upstream::start(move |request| {
            noted.lock().unwrap().push((request.target().to_owned(), Instant::now()));
            response(200, &[], b"")
        });
        // The timeout is long enough for two busy cores: the fallback must not decide in this test.
        let redis = redis.map_or(String::new(), |redis| format!("redis: {{url: '{}', timeout: 5s}}\n", redis.url()));
        let gateway = Gateway::start(&format!(
            "server: {{address: 127.0.0.1, workers: 1, half-close: false}}\n{redis}routes: [{{id: a, uri: '{}', predicates: [Path=/**], filters: [{{name: RequestRateLimiter, args: \
             {{algorithm: leaky-bucket, key-resolver: 'header:x-key', {arguments}}}}}]}}]",
            upstream.uri()
        ));
        Self { gateway, served, _upstream: upstream }
    }

    fn ask(&self, path: &str) -> Response {
        self.gateway.connect().request("GET", path, &[("x-key", "k")], b"")
    }

    /// Returns the time at which the request for `path` reached the upstream.
    fn served(&self, path: &str) -> Option<Instant> {
        self.served.lock().unwrap().iter().find(|(target, _)| target == path).map(|(_, at)| *at)
    }
}

#[test]
fn leaky_bucket_spaces_six_requests_and_denies_the_rest_in_memory() {
    six_at_once(None);
}

#[test]
fn leaky_bucket_spaces_six_requests_and_denies_the_rest_in_redis() {
    six_at_once(Some(&Redis::start()));
}

fn six_at_once(redis: Option<&Redis>) {
    const INTERVAL: Duration = Duration::from_millis(250);
    let paced = Paced::start(redis, "rate: 4, max-wait: 10s, max-queue: 5");
    let (barrier, clients) = (Barrier::new(8), 8);
    let answers: Vec<(Instant, Response)> = std::thread::scope(|scope| {
        let ask = || {
            let mut connection = paced.gateway.connect();
            barrier.wait();
            let sent = Instant::now();
            (sent, connection.request("GET", "/", &[("x-key", "k")], b""))
        };
        let clients: Vec<_> = (0..clients).map(|_| scope.spawn(ask)).collect();
        clients.into_iter().map(|client| client.join().unwrap()).collect()
    });
    let first_sent = answers.iter().map(|(sent, _)| *sent).min().unwrap();
    let mut statuses: Vec<u16> = answers.iter().map(|(_, answer)| answer.status).collect();
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 200, 200, 200, 200, 200, 429, 429]);
    for (_, denied) in answers.iter().filter(|(_, answer)| answer.status == 429) {
        assert_eq!((denied.header("retry-after"), denied.header("x-ratelimit-degraded")), (Some("1"), None));
    }
    let mut starts: Vec<Instant> = paced.served.lock().unwrap().iter().map(|(_, at)| *at).collect();
    starts.sort_unstable();
    let gaps: Vec<Duration> = starts.windows(2).map(|pair| pair[1] - pair[0]).collect();
    println!("gaps of {INTERVAL:?}: {gaps:?}");
    assert_eq!(starts.len(), 6);
    // Compared with the first request, not with the previous one: a late request shortens the gap after it.
    for (turn, start) in (0..).zip(&starts) {
        let early = (first_sent + INTERVAL * turn).saturating_duration_since(*start);
        assert!(early <= Duration::from_millis(1), "turn {turn} came {early:?} early: {gaps:?}");
    }
}

#[test]
fn leaky_bucket_admits_after_retry_after_in_memory() {
    admits_after_retry_after(None);
}

#[test]
fn leaky_bucket_admits_after_retry_after_in_redis() {
    admits_after_retry_after(Some(&Redis::start()));
}

fn admits_after_retry_after(redis: Option<&Redis>) {
    let paced = Paced::start(redis, "rate: 1, period: 1300ms, max-wait: 10s, max-queue: 1");
    assert_eq!(paced.ask("/first").status, 200);
    let first = paced.served("/first").unwrap();
    std::thread::scope(|scope| {
        // One of the two waits for the second place; the other finds the queue full.
        let clients = ["/a", "/b"].map(|path| {
            let paced = &paced;
            scope.spawn(move || (paced.ask(path), Instant::now()))
        });
        let answers = clients.map(|client| client.join().unwrap());
        let mut denied = answers.iter().filter(|(answer, _)| answer.status == 429);
        let (denied, at) = denied.next().expect("one is denied");
        assert_eq!(denied.header("retry-after"), Some("2"), "the remaining part of 1.3 s, rounded up");
        std::thread::sleep((*at + Duration::from_secs(2)).saturating_duration_since(Instant::now()));
        assert_eq!(paced.ask("/again").status, 200);
        assert!(paced.served("/again").unwrap() >= first + Duration::from_millis(2_500));
    });
}

#[test]
fn a_client_that_disconnects_frees_its_place_in_the_queue_in_memory() {
    disconnecting_frees_the_place(None);
}

#[test]
fn a_client_that_disconnects_frees_its_place_in_the_queue_in_redis() {
    disconnecting_frees_the_place(Some(&Redis::start()));
}

fn disconnecting_frees_the_place(redis: Option<&Redis>) {
    const INTERVAL: Duration = Duration::from_secs(3);
    let paced = Paced::start(redis, "rate: 1, period: 3s, max-wait: 1m, max-queue: 2");
    let begin = Instant::now();
    assert_eq!(paced.ask("/first").status, 200);
    let mut waiting = [paced.gateway.connect(), paced.gateway.connect()];
    for client in &mut waiting {
        client.send("GET /left HTTP/1.1\r\nHost: localhost\r\nX-Key: k\r\n\r\n");
    }
    eventually("both turns are taken", || {
        paced.gateway.metric("tollgate_limiter_decisions_total", &["allowed"]) >= 3.0
    });
    assert_eq!(paced.ask("/late").status, 429, "the queue is full");
    drop(waiting);
    eventually("the turns are free", || paced.ask("/next").status == 200);
    let next = paced.served("/next").unwrap() - begin;
    println!("the second turn, due after {INTERVAL:?}, was taken after {next:?}");
    assert!(next >= INTERVAL && next < INTERVAL * 2, "the second turn, not the fourth: {next:?}");
    assert_eq!(paced.served("/left"), None);
}
