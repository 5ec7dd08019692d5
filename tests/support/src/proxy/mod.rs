//! Proxy in front of a Redis that injects faults.
//!
//! It parses commands and replies and pairs them in order, so a fault affects exactly one of many outstanding replies.
//! It runs on its own thread, independent of the clock and runtime of the test.

mod connection;
mod fault;
mod resp;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use tokio::net::TcpListener;
use tokio::runtime::Builder;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;

use crate::ports::Port;
use connection::Connection;
use fault::Effect;
pub use fault::{ERRORS, Fault};

/// Proxy on loopback for a Redis. The proxy and its connections end with the handle.
#[derive(Debug)]
pub struct FaultProxy {
    /// Address of the proxy.
    pub address: SocketAddr,
    control: Arc<Control>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    _port: Port,
}

/// State shared by the handle and the connections.
#[derive(Debug)]
struct Control {
    target: SocketAddr,
    state: Mutex<State>,
    /// Number of faults set so far. Held replies are released when it changes.
    era: watch::Sender<u64>,
    resets: watch::Sender<u64>,
    live: AtomicUsize,
    accepted: AtomicUsize,
    calls: AtomicUsize,
}

#[derive(Debug)]
struct State {
    fault: Fault,
    once: bool,
    struck: usize,
}

impl FaultProxy {
    /// Starts a proxy for the Redis at `target`, without a fault.
    pub fn start(target: SocketAddr) -> Self {
        let port = Port::claim();
        let control = Arc::new(Control {
            target,
            state: Mutex::new(State { fault: Fault::Pass, once: false, struck: 0 }),
            era: watch::Sender::new(0),
            resets: watch::Sender::new(0),
            live: AtomicUsize::new(0),
            accepted: AtomicUsize::new(0),
            calls: AtomicUsize::new(0),
        });
        let (stop, stopped) = oneshot::channel();
        let (ready, is_ready) = std::sync::mpsc::channel();
        let (address, shared) = (port.address(), Arc::clone(&control));
        let thread = std::thread::spawn(move || {
            let runtime = Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let listener = TcpListener::bind(address).await.unwrap();
                ready.send(()).unwrap();
                tokio::select! {
                    () = listen(listener, address, shared) => {}
                    _ = stopped => {}
                }
            });
        });
        is_ready.recv().expect("the proxy listens");
        Self { address, control, stop: Some(stop), thread: Some(thread), _port: port }
    }

    /// Returns the URL.
    pub fn url(&self) -> String {
        format!("redis://{}", self.address)
    }

    /// Sets the fault until the next call.
    pub fn set(&self, fault: Fault) {
        self.control.set(fault, false);
    }

    /// Sets the fault for the first affected command only.
    pub fn once(&self, fault: Fault) {
        self.control.set(fault, true);
    }

    /// Resets every connection.
    pub fn reset_connections(&self) {
        self.control.resets.send_modify(|resets| *resets += 1);
    }

    /// Returns the commands affected by the fault since it was set.
    pub fn struck(&self) -> usize {
        self.control.state.lock().unwrap().struck
    }

    /// Returns the number of open connections.
    pub fn live(&self) -> usize {
        self.control.live.load(SeqCst)
    }

    /// Returns the number of connections accepted so far.
    pub fn accepted(&self) -> usize {
        self.control.accepted.load(SeqCst)
    }

    /// Returns the number of script calls forwarded so far.
    pub fn calls(&self) -> usize {
        self.control.calls.load(SeqCst)
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        let _ = self.stop.take().map(|stop| stop.send(()));
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Accepts connections until it is dropped, and owns them.
async fn listen(listener: TcpListener, address: SocketAddr, control: Arc<Control>) {
    let mut era = control.era.subscribe();
    let mut listener = Some(listener);
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        match (control.fault().is_refusal(), &listener) {
            (true, _) => {
                listener = None;
                control.resets.send_modify(|resets| *resets += 1);
                let _ = era.changed().await;
            }
            (false, None) => listener = Some(TcpListener::bind(address).await.unwrap()),
            (false, Some(open)) => tokio::select! {
                accepted = open.accept() => if let Ok((client, _)) = accepted {
                    control.accepted.fetch_add(1, SeqCst);
                    connections.spawn(Connection::new(Arc::clone(&control)).serve(client));
                },
                _ = era.changed() => {}
            },
        }
    }
}

impl Control {
    fn set(&self, fault: Fault, once: bool) {
        *self.state.lock().unwrap() = State { fault, once, struck: 0 };
        self.era.send_modify(|era| *era += 1);
    }

    fn fault(&self) -> Fault {
        self.state.lock().unwrap().fault.clone()
    }

    /// Returns the treatment of an arrived command.
    fn strike(&self, command: &[u8]) -> Effect {
        let is_script = matches!(resp::name(command).as_str(), "EVAL" | "EVALSHA" | "FCALL");
        let mut state = self.state.lock().unwrap();
        let effect = state.fault.on(command, is_script);
        if effect != Effect::None {
            state.struck += 1;
            if state.once {
                state.fault = Fault::Pass;
            }
        }
        if is_script && !matches!(effect, Effect::Reply(_)) {
            self.calls.fetch_add(1, SeqCst);
        }
        effect
    }

    /// Waits while the fault blocks all traffic.
    async fn passable(&self) {
        let mut era = self.era.subscribe();
        let _ = era.wait_for(|_| self.fault() != Fault::BlackHole).await;
    }

    /// Waits until the fault has changed since `era`.
    async fn after(&self, era: u64) {
        let _ = self.era.subscribe().wait_for(|now| *now != era).await;
    }
}
