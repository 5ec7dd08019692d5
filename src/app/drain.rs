//! Drain: waits for in-flight requests, writes remaining usage and closes the access log.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use tokio::net::UnixStream;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::time::Instant;

use crate::admin::AdminState;
use crate::app::process::{End, Process, WorkerThread};
use crate::app::service_manager;
use crate::app::signals::ShutDownSignals;
use crate::app::{buckets, handover};
use tollgate_proxy::server::accept::{Drain, Order};
use tollgate_telemetry::log_writer::LogWriter;

/// Time for the last lines of the access log.
const LOG_TIMEOUT: Duration = Duration::from_secs(1);
/// Time for the last lines after a second signal, which ends the process within a second.
const LOG_TIMEOUT_AFTER_SECOND_SIGNAL: Duration = Duration::from_millis(200);

impl Process {
    /// Ends the process in order. A second signal cuts the wait short, after a handover too: a service manager sends the first
    /// one to both processes.
    pub(super) async fn drain(mut self, end: End, signals: &mut ShutDownSignals) {
        let (log, spans) = (self.log.take(), self.spans.take());
        let log_timeout = tokio::select! {
            () = self.finish(end) => LOG_TIMEOUT,
            () = second_signal(end, signals) => {
                tracing::warn!("second signal: exiting immediately");
                LOG_TIMEOUT_AFTER_SECOND_SIGNAL
            }
        };
        if let Some(spans) = spans {
            spans.flush(log_timeout);
        }
        if let Some(log) = log {
            close(&log, log_timeout);
        }
    }

    /// Waits for in-flight requests, then writes the remaining usage.
    async fn finish(mut self, end: End) {
        drop((self.reload_requests, self.watchdog));
        // After a handover, others find the process that serves.
        let mut offers = (end == End::ShutDown).then_some(self.offers);
        self.admin.draining.store(true, Relaxed);
        let (delay, timeout) = {
            let server = &self.config.borrow().server;
            (server.drain_delay.get(), server.shutdown_timeout.get())
        };
        match end {
            End::ShutDown => {
                service_manager::stopping();
                // Clients of the registries find other gateways while this one still serves.
                self.registrations.leave().await;
                self.redis_monitor.deregister().await;
                if !delay.is_zero() {
                    tracing::info!(
                        ?delay,
                        "not ready: serving until the drain begins (second signal exits immediately)"
                    );
                    tokio::time::sleep(delay).await;
                }
                tracing::info!(
                    ?timeout,
                    "shutting down: waiting for in-flight requests (second signal exits immediately)"
                );
            }
            End::HandedOver { successor } => {
                // Clients of the admin port still arrive in the queue of a socket of its own.
                self.admin_open.send_replace(successor.is_none());
                // The new process has the registrations and the file.
                if let Some(file) = self.admin_socket.take() {
                    file.leave();
                }
                self.redis_monitor.deregister().await;
                tracing::info!(
                    ?timeout,
                    "handed over: waiting for in-flight requests (second signal exits immediately)"
                );
            }
        }
        // A process that has not taken over yet leaves the sockets to the one before.
        let is_waiting = matches!(*self.orders.borrow(), Order::Wait);
        let leaves_queues = matches!(end, End::HandedOver { successor: Some(_) }) || is_waiting;
        // The workers close the last duplicates.
        drop(self.sockets);
        let closed = Arc::new(Semaphore::new(0));
        self.orders.send_replace(Order::Drain(Drain { timeout, leaves_queues, closed: Arc::clone(&closed) }));
        let open = join_beside(self.workers, &mut offers, &self.admin, (&closed, timeout)).await;
        match open {
            Some(0) => tracing::info!("all requests finished"),
            closed => {
                let connections = closed.unwrap_or_default();
                tracing::warn!(connections, "connections closed at the end of `server.shutdown-timeout`");
            }
        }
        if let Some(offers) = offers.filter(|_| !is_waiting) {
            buckets::write(&self.config.borrow(), &self.admin.stores);
            // A process that starts meanwhile finds either this one or the file.
            drop(offers);
        }
        // Usage is complete only now: the last requests are counted when the workers end.
        self.metering.finish().await;
    }
}

/// Waits for the second signal.
async fn second_signal(end: End, signals: &mut ShutDownSignals) {
    if end != End::ShutDown {
        signals.next().await;
        tracing::info!("handed over before the signal: still waiting for in-flight requests");
    }
    signals.next().await;
}

fn close(log: &LogWriter, timeout: Duration) {
    let before = log.lost();
    if !log.close(timeout) {
        tracing::warn!(lines = log.lost() - before, ?timeout, "access log output is blocked: its last lines are lost");
    }
}

/// Joins the workers, and returns the number of connections that they closed; `None` if it is unknown. A process that starts beside
/// this one meanwhile takes the buckets, and ends the `offers`. `closed` gets a permit of each worker that takes no more requests.
async fn join_beside(
    workers: Vec<WorkerThread>,
    offers: &mut Option<mpsc::Receiver<UnixStream>>,
    admin: &AdminState,
    (closed, timeout): (&Semaphore, Duration),
) -> Option<usize> {
    let (started, count) = (Instant::now(), workers.len());
    let mut joined = pin!(join(workers));
    loop {
        let other = tokio::select! {
            open = &mut joined => return open,
            Some(other) = async { offers.as_mut()?.recv().await } => other,
        };
        let config = admin.config.load_full();
        let timeout = config.server.handover_timeout.get().min(timeout.saturating_sub(started.elapsed()));
        match handover::hand_buckets_over(other, admin, (closed, count), timeout).await {
            Ok(()) => {
                tracing::info!("the process beside this one has the buckets, and serves");
                *offers = None;
            }
            Err(error) => tracing::error!("buckets not handed over: {error}"),
        }
    }
}

/// Joins the workers, and returns the number of connections that they closed; `None` if it is unknown.
async fn join(workers: Vec<WorkerThread>) -> Option<usize> {
    let (done, all_done) = oneshot::channel();
    std::thread::spawn(move || {
        let closed: usize = workers.into_iter().filter_map(|worker| worker.join().ok()?.ok()).sum();
        let _ = done.send(closed);
    });
    all_done.await.ok()
}
