//! A rolling update as Kubernetes does one with `deploy/kubernetes`: the same steps and signals, with processes for pods.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use crate::support::client::Connection;
use crate::support::eventually;
use crate::support::gateway::Gateway;
use crate::support::upstream::Upstream;

/// Clients of a Service: connections to one of its endpoints.
struct Clients {
    endpoints: Arc<Mutex<Vec<SocketAddr>>>,
    served: Arc<AtomicUsize>,
    ended: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Vec<String>>>,
}

impl Clients {
    /// Starts `count` clients. Half of them keep their connections.
    fn start(count: usize, endpoint: SocketAddr) -> Self {
        let (endpoints, served) = (Arc::new(Mutex::new(vec![endpoint])), Arc::new(AtomicUsize::new(0)));
        let ended = Arc::new(AtomicBool::new(false));
        let threads = (0..count).map(|number| {
            let (endpoints, served, ended) = (Arc::clone(&endpoints), Arc::clone(&served), Arc::clone(&ended));
            let pick = move |turn: usize| {
                let endpoints = endpoints.lock().unwrap();
                endpoints[turn % endpoints.len()]
            };
            std::thread::spawn(move || ask(number % 2 == 0, pick, &served, &ended))
        });
        Self { threads: threads.collect(), endpoints, served, ended }
    }

    /// Replaces the endpoints, and waits until clients had time to use the new ones.
    fn endpoints(&self, endpoints: &[&Gateway]) {
        *self.endpoints.lock().unwrap() = endpoints.iter().map(|gateway| gateway.address).collect();
        let goal = self.served.load(SeqCst) + 500;
        eventually("requests continue", || self.served.load(SeqCst) >= goal);
    }

    /// Ends the clients; returns the failures.
    fn stop(self) -> Vec<String> {
        self.ended.store(true, SeqCst);
        self.threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    }
}

/// Sends requests until the clients end. Returns the failures.
fn ask(keeps: bool, pick: impl Fn(usize) -> SocketAddr, served: &AtomicUsize, ended: &AtomicBool) -> Vec<String> {
    let (mut kept, mut failures) = (None, Vec::new());
    for turn in 0.. {
        if ended.load(SeqCst) {
            break;
        }
        let address = pick(turn);
        let opened = kept.take().map_or_else(|| Connection::try_open(address), Ok);
        let Ok(mut connection) = opened else {
            failures.push(format!("{address} refused a connection"));
            continue;
        };
        match connection.try_request("GET", "/a", &[], b"") {
            Some(answer) if answer.status == 200 && answer.complete => {
                served.fetch_add(1, SeqCst);
                kept = (keeps && answer.header("connection") != Some("close")).then_some(connection);
            }
            answer => failures.push(format!("keeps {keeps}: {answer:?}")),
        }
    }
    failures
}

#[test]
fn a_rolling_update_loses_no_request() {
    let upstream = Upstream::ok("hello");
    let config = format!(
        "server: {{address: 127.0.0.1, workers: 2}}\nroutes: [{{id: a, uri: '{}', predicates: [Path=/**]}}]\n",
        upstream.uri()
    );
    let mut old = Gateway::start(&config);
    let clients = Clients::start(8, old.address);
    for _ in 0..2 {
        // `maxSurge: 1`: a new pod is ready first.
        let new = Gateway::start(&config);
        eventually("the new pod is ready", || new.admin("/health/ready").status == 200);
        clients.endpoints(&[&old, &new]);
        // `preStop`: the old pod serves on while the endpoints change.
        clients.endpoints(&[&new]);
        old.signal("TERM");
        assert_eq!(old.wait().code(), Some(0));
        old.logged("all requests finished");
        old = new;
    }
    let failures = clients.stop();
    assert!(failures.is_empty(), "{} failures, such as {:?}", failures.len(), failures.first());
}
