//! Drain: waits for in-flight requests, writes remaining usage and closes the access log.

use std::io;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::JoinHandle;

use tokio::sync::oneshot;

use crate::app::process::Process;
use crate::app::signals::Signals;

impl Process {
    /// Ends the process in order. A second signal cuts the wait short.
    pub(super) async fn drain(self, signals: &mut Signals) {
        drop(self.reload_requests);
        self.admin.draining.store(true, Relaxed);
        self.redis_monitor.deregister().await;
        let timeout = self.config.borrow().server.shutdown_timeout;
        tracing::info!(?timeout, "shutting down: waiting for in-flight requests (second signal exits immediately)");
        self.drain.send_replace(Some(timeout));
        tokio::select! {
            closed = join(self.workers) => match closed {
                Some(0) => tracing::info!("all requests finished"),
                closed => {
                    let connections = closed.unwrap_or_default();
                    tracing::warn!(connections, "connections closed at the end of `server.shutdown-timeout`");
                }
            },
            () = signals.shut_down() => {
                tracing::warn!("second signal: exiting immediately");
                return;
            }
        }
        // Usage is complete only now: the last requests are counted when the workers end.
        tokio::select! {
            () = self.metering.finish() => {}
            () = signals.shut_down() => tracing::warn!("second signal: exiting immediately"),
        }
        self.admin.drop_log();
        if let Some((writer, thread)) = self.log {
            drop(writer);
            let _ = thread.join();
        }
    }
}

/// Joins the workers, and returns the number of connections that they closed; `None` if it is unknown.
async fn join(workers: Vec<JoinHandle<io::Result<usize>>>) -> Option<usize> {
    let (done, all_done) = oneshot::channel();
    std::thread::spawn(move || {
        let closed: usize = workers.into_iter().filter_map(|worker| worker.join().ok()?.ok()).sum();
        let _ = done.send(closed);
    });
    all_done.await.ok()
}
