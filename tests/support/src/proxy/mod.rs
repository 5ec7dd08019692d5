//! A proxy before a Redis that fails as told.
//!
//! It knows where commands and replies begin, and pairs them in order, so that a fault strikes exactly one reply of
//! many that are on their way. It runs on a thread of its own, whatever clock and runtime the test has.

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

/// Listens on loopback for a Redis elsewhere. Ends with its handle, and all connections with it.
#[derive(Debug)]
pub struct FaultProxy {
    /// Where it listens.
    pub address: SocketAddr,
    control: Arc<Control>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    _port: Port,
}

/// What the handle tells the connections, and they it.
#[derive(Debug)]
struct Control {
    target: SocketAddr,
    state: Mutex<State>,
    /// Counts the faults that were set: who holds something back lets it go at the next.
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
    /// Stands before the Redis at `target`, with nothing wrong.
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
        let (tell, told) = std::sync::mpsc::channel();
        let (address, shared) = (port.address(), Arc::clone(&control));
        let thread = std::thread::spawn(move || {
            let runtime = Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let listener = TcpListener::bind(address).await.unwrap();
                tell.send(()).unwrap();
                tokio::select! {
                    () = listen(listener, address, shared) => {}
                    _ = stopped => {}
                }
            });
        });
        told.recv().expect("the proxy listens");
        Self { address, control, stop: Some(stop), thread: Some(thread), _port: port }
    }

    /// Its URL.
    pub fn url(&self) -> String {
        format!("redis://{}", self.address)
    }

    /// From now on this is wrong, until something else is set.
    pub fn set(&self, fault: Fault) {
        self.control.set(fault, false);
    }

    /// The same for the first command that it strikes; then nothing is wrong.
    pub fn once(&self, fault: Fault) {
        self.control.set(fault, true);
    }

    /// Resets every connection.
    pub fn reset_connections(&self) {
        self.control.resets.send_modify(|resets| *resets += 1);
    }

    /// Commands that were struck by what is wrong since it was set.
    pub fn struck(&self) -> usize {
        self.control.state.lock().unwrap().struck
    }

    /// Connections that are open.
    pub fn live(&self) -> usize {
        self.control.live.load(SeqCst)
    }

    /// Connections that were ever accepted.
    pub fn accepted(&self) -> usize {
        self.control.accepted.load(SeqCst)
    }

    /// Calls of scripts that were ever passed on to Redis.
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

/// Accepts until it is dropped, and holds all connections.
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

    /// What becomes of a command that has arrived.
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
        if is_script && !matches!(effect, Effect::Answer(_)) {
            self.calls.fetch_add(1, SeqCst);
        }
        effect
    }

    /// Waits while nothing may pass.
    async fn passable(&self) {
        let mut era = self.era.subscribe();
        let _ = era.wait_for(|_| self.fault() != Fault::BlackHole).await;
    }

    /// Waits until another fault is set than at `era`.
    async fn after(&self, era: u64) {
        let _ = self.era.subscribe().wait_for(|now| *now != era).await;
    }
}
