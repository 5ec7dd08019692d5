//! A redis-server on a free loopback port, killed on drop, and shorthands.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::num::NonZeroUsize;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use tollgate_filters::limiter::key::BucketKey;
use tollgate_filters::limiter::rule::{Rule, TokenBucket};
use tollgate_filters::limiter::store::memory::{ManualClock, MemoryStore};
use tollgate_filters::limiter::store::redis::{RedisClient, RedisSettings, RedisStore};
use tollgate_filters::limiter::store::{Check, Decision, OnStoreFailure, Store};
use tollgate_filters::limiter::verdict::Verdict;

pub(crate) struct RedisServer {
    process: Option<Child>,
    pub(crate) port: u16,
    dir: tempfile::TempDir,
    args: Vec<String>,
}

impl RedisServer {
    pub(crate) fn start() -> Self {
        Self::start_with(&[])
    }

    pub(crate) fn start_with(args: &[&str]) -> Self {
        let mut server = Self::stopped(args);
        server.launch();
        server
    }

    /// A server that is not running yet, and its port.
    pub(crate) fn stopped(args: &[&str]) -> Self {
        let args = args.iter().map(|&arg| arg.to_owned()).collect();
        Self { process: None, port: free_port(), dir: tempfile::tempdir().unwrap(), args }
    }

    /// Starts it and returns when it says that it is ready.
    pub(crate) fn launch(&mut self) {
        let mut process = Command::new("redis-server")
            .args(["--port", &self.port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
            .args(&self.args)
            .current_dir(self.dir.path())
            .stdout(Stdio::piped())
            .spawn()
            .expect("redis-server is installed");
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let ready = lines.by_ref().map_while(Result::ok).any(|line| line.contains("Ready to accept connections"));
        assert!(ready, "redis-server came up on port {}", self.port);
        std::thread::spawn(move || lines.for_each(drop));
        self.process = Some(process);
    }

    pub(crate) fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill().unwrap();
            process.wait().unwrap();
        }
    }

    /// Sends it a signal, such as `STOP`: it keeps its sockets and answers nothing.
    pub(crate) fn signal(&self, signal: &str) {
        let pid = self.process.as_ref().unwrap().id().to_string();
        assert!(Command::new("kill").args([&format!("-{signal}"), &pid]).status().unwrap().success());
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// A connection to look behind the limiter's back.
    pub(crate) fn connection(&self) -> redis::Connection {
        redis::Client::open(self.url()).unwrap().get_connection().unwrap()
    }

    /// A client that waits for as long as a busy machine may take.
    pub(crate) fn client(&self) -> Arc<RedisClient> {
        self.client_that_waits(Duration::from_secs(20))
    }

    pub(crate) async fn connected_client(&self) -> Arc<RedisClient> {
        self.connected_client_that_waits(Duration::from_secs(20)).await
    }

    /// A client whose decisions take `timeout` at most.
    pub(crate) async fn connected_client_that_waits(&self, timeout: Duration) -> Arc<RedisClient> {
        let client = self.client_that_waits(timeout);
        assert!(client.wait_connected(Duration::from_secs(10)).await);
        client
    }

    fn client_that_waits(&self, timeout: Duration) -> Arc<RedisClient> {
        RedisClient::start(&RedisSettings { timeout, ..RedisSettings::new(self.url()) }).unwrap()
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Stands before a Redis and holds back what clients send from the first piece on in which a text occurs, on that
/// connection.
pub(crate) struct Proxy {
    port: u16,
    state: Arc<(Mutex<Held>, Condvar)>,
}

#[derive(Default)]
struct Held {
    holds: bool,
    open: bool,
}

impl Proxy {
    pub(crate) fn start(redis: u16, held_back: &'static [u8]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = Arc::<(Mutex<Held>, Condvar)>::default();
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let Ok(server) = TcpStream::connect(("127.0.0.1", redis)) else { return };
                let (mut answers, mut to_client) = (server.try_clone().unwrap(), client.try_clone().unwrap());
                std::thread::spawn(move || std::io::copy(&mut answers, &mut to_client));
                let state = Arc::clone(&shared);
                std::thread::spawn(move || forward(client, server, held_back, &state));
            }
        });
        Self { port, state }
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Whether it has found the text.
    pub(crate) fn holds_back(&self) -> bool {
        self.state.0.lock().unwrap().holds
    }

    /// Passes everything on from now.
    pub(crate) fn let_go(&self) {
        self.state.0.lock().unwrap().open = true;
        self.state.1.notify_all();
    }
}

fn forward(mut client: TcpStream, mut server: TcpStream, held_back: &[u8], (held, changed): &(Mutex<Held>, Condvar)) {
    let mut piece = [0; 65_536];
    while let Ok(read @ 1..) = client.read(&mut piece) {
        if piece[..read].windows(held_back.len()).any(|window| window == held_back) {
            let mut held = held.lock().unwrap();
            held.holds = true;
            drop(changed.wait_while(held, |held| !held.open).unwrap());
        }
        if server.write_all(&piece[..read]).is_err() {
            return;
        }
    }
}

/// A port that nobody listens on: below those that the system hands out, so that no listener on port 0 is given it
/// meanwhile, and from a start of this process' own.
fn free_port() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    loop {
        let number = std::process::id().wrapping_mul(31).wrapping_add(NEXT.fetch_add(1, Ordering::SeqCst));
        let port = u16::try_from(12_000 + number % 18_000).unwrap();
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

pub(crate) fn rule(rate: u64, burst: u64) -> Rule {
    Rule::TokenBucket(TokenBucket::per_second(rate, burst).unwrap())
}

pub(crate) fn memory() -> (Arc<MemoryStore>, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::default());
    (Arc::new(MemoryStore::with_clock(NonZeroUsize::new(1_000).unwrap(), clock.clone())), clock)
}

pub(crate) fn store(client: &Arc<RedisClient>, on_store_failure: OnStoreFailure) -> RedisStore {
    RedisStore::new(Arc::clone(client), memory().0, on_store_failure)
}

pub(crate) async fn ask(store: &impl Store, id: &str, rule: &Rule) -> Verdict {
    match store.decide(&[Check { key: BucketKey { scope: "r", id: id.as_bytes() }, rule, cost: 1 }]) {
        Decision::Ready(verdict) => verdict,
        Decision::Pending(verdict) => verdict.await,
    }
}

/// Looks again and again until `done`; returns how long it took. Gives up loudly after 10 s.
pub(crate) async fn eventually(what: &str, mut done: impl AsyncFnMut() -> bool) -> Duration {
    let start = Instant::now();
    while !done().await {
        assert!(start.elapsed() < Duration::from_secs(10), "{what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    start.elapsed()
}

/// Microseconds as a script's seconds.
pub(crate) fn seconds(us: u64) -> String {
    format!("{}.{:06}", us / 1_000_000, us % 1_000_000)
}

/// What the `redis-cli` line in a script's first comment prints.
pub(crate) fn run_line(server: &RedisServer, script: &str) -> Vec<String> {
    let line = script.lines().find(|line| line.starts_with("redis-cli --eval")).unwrap();
    let line = line.replacen("redis-cli", &format!("redis-cli -p {}", server.port), 1);
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    let output = Command::new("sh").arg("-c").arg(line).current_dir(root).output().unwrap();
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}
