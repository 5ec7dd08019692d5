//! Watches Redis from the process' own thread: what the servers say of themselves, and how many gateways live.
//!
//! Both ask over a worker's connections, within a decision's deadline, and are not counted as decisions.

mod gateways;
mod servers;

use std::sync::Arc;

use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

pub use self::servers::{Server, Servers};
use crate::app::worker::Orders;
use crate::state::stores::SharedLimits;

/// The watch at work.
#[derive(Debug)]
pub struct RedisWatch {
    stop: oneshot::Sender<()>,
    beating: JoinHandle<()>,
}

impl RedisWatch {
    /// Watches the Redis of `limits` for as long as the process runs. Called within the process' set of local tasks.
    pub fn start(limits: &Arc<SharedLimits>, orders: watch::Receiver<Orders>) -> Self {
        tokio::task::spawn_local(servers::look(Arc::clone(limits)));
        let (stop, stopped) = oneshot::channel();
        Self { stop, beating: tokio::task::spawn_local(gateways::beat(Arc::clone(limits), orders, stopped)) }
    }

    /// Says that this gateway ends, while the workers' connections are there still. Returns within a moment.
    pub async fn leave(self) {
        let _ = self.stop.send(());
        let _ = self.beating.await;
    }
}
