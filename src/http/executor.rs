//! Executor for hyper on a single-threaded runtime.

use std::future::Future;

/// Executor that spawns the tasks of an HTTP/2 connection on the current thread.
#[derive(Clone, Copy, Debug)]
pub struct LocalExecutor;

impl<F: Future<Output = ()> + 'static> hyper::rt::Executor<F> for LocalExecutor {
    fn execute(&self, future: F) {
        tokio::task::spawn_local(future);
    }
}
