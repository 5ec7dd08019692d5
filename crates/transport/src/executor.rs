//! Tasks on a single-threaded runtime.

use std::future::Future;
use std::pin::Pin;

use tokio::task::{JoinHandle, spawn_local};

/// Spawns `future` on the current thread. It is boxed, so that the code of tasks is compiled only once.
pub fn spawn_boxed(future: impl Future<Output = ()> + 'static) -> JoinHandle<()> {
    let boxed: Pin<Box<dyn Future<Output = ()>>> = Box::pin(future);
    spawn_local(boxed)
}

/// Task on the current thread, which ends when this is dropped.
#[derive(Debug)]
pub struct OwnedTask(JoinHandle<()>);

impl OwnedTask {
    /// Starts the task.
    pub fn start(task: impl Future<Output = ()> + 'static) -> Self {
        Self(spawn_boxed(task))
    }
}

impl Drop for OwnedTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}
