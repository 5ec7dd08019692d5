//! Connections of the admin port, and the deadlines of their requests.

use std::convert::Infallible;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::admin::respond;
use crate::admin::state::AdminState;

/// Timeout for a request head, and for an idle connection.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);
/// Timeout for a request as a whole, from its head to the last byte of the response that the client reads.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum size of a request head in bytes.
const MAX_HEAD_BYTES: usize = 64 * 1024;

/// Time at which a connection is closed, whatever it does.
#[derive(Clone, Debug)]
pub(super) struct Deadline(Rc<watch::Sender<Instant>>);

impl Deadline {
    /// Creates a deadline for the first request of a connection.
    pub(super) fn new() -> Self {
        Self(Rc::new(watch::Sender::new(Instant::now() + REQUEST_TIMEOUT)))
    }

    /// Moves the deadline to `timeout` from now.
    pub(super) fn set(&self, timeout: Duration) {
        self.0.send_replace(Instant::now() + timeout);
    }

    /// Returns after the deadline.
    async fn passed(&self) {
        let mut changes = self.0.subscribe();
        loop {
            let deadline = *changes.borrow_and_update();
            tokio::select! {
                () = tokio::time::sleep_until(deadline) => return,
                _ = changes.changed() => {}
            }
        }
    }
}

/// Serves one connection, until it ends or its deadline passes. Each request moves the deadline.
pub(super) async fn serve(stream: impl AsyncRead + AsyncWrite + Unpin, client: IpAddr, state: Arc<AdminState>) {
    let deadline = Deadline::new();
    let latest = deadline.clone();
    let service = service_fn(move |request| {
        let (state, deadline) = (Arc::clone(&state), latest.clone());
        deadline.set(REQUEST_TIMEOUT);
        async move { Ok::<_, Infallible>(respond(request, client, &state, deadline).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .max_buf_size(MAX_HEAD_BYTES)
        .serve_connection(TokioIo::new(stream), service);
    tokio::select! {
        _ = connection => {}
        () = deadline.passed() => {}
    }
}
