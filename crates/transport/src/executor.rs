//! Tasks on a single-threaded runtime.

use std::future::Future;
use std::pin::Pin;

use tokio::task::{JoinHandle, spawn_local};

/// Spawns `future` on the current thread. It is boxed, so that the code of tasks is compiled only once.
pub fn spawn_boxed(future: impl Future<Output = ()> + 'static) -> JoinHandle<()> {
    let boxed: Pin<Box<dyn Future<Output = ()>>> = Box::pin(future);
    spawn_local(boxed)
}
