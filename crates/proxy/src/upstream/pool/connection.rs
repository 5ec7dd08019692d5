//! Connection that takes requests.

use std::time::Duration;

use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

use crate::http::deadline::Deadline;
use crate::upstream::pool::http1::Http1Connection;
use crate::upstream::pool::http2::OpenStream;
use crate::upstream::pool::name_lookup::Peer;

/// Time for the rest of a request after its response, if `read-timeout` is off: the default of that timeout.
const MAX_REST: Duration = Duration::from_secs(60);

/// Connection with the deadline of its current operation. It lives in one box from its first request to its last: each
/// request moves it several times.
#[derive(Debug)]
pub struct Connection {
    /// Sends requests.
    pub sender: Sender,
    /// Deadline of the response head, then of each part of the body.
    pub deadline: Deadline,
    /// Second of the pool's clock in which it was established.
    pub(super) since_secs: u64,
    /// Second in which it was released last.
    pub(super) idle_since_secs: u64,
    /// Address of a name that it leads to; `None` if it was connected by address.
    pub(super) peer: Option<Peer>,
    /// Share of the pool's connection limit.
    pub(super) permit: Option<OwnedSemaphorePermit>,
}

/// Sender of requests.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "a connection is in a box")]
pub enum Sender {
    /// HTTP/1.1: one request after the other.
    Http1(Http1Connection),
    /// One stream of an HTTP/2 connection that other requests share.
    Http2(OpenStream),
}

impl Connection {
    pub(super) fn new(sender: Sender, since_secs: u64, permit: Option<OwnedSemaphorePermit>) -> Box<Self> {
        let deadline = Deadline::default();
        Box::new(Self { sender, deadline, since_secs, idle_since_secs: since_secs, peer: None, permit })
    }

    /// Returns true if it can take a request now.
    pub(super) fn is_usable(&mut self) -> bool {
        match &mut self.sender {
            Sender::Http1(connection) => connection.is_open(),
            Sender::Http2(stream) => stream.is_usable(),
        }
    }

    /// Sets the deadline of the response head.
    pub(in crate::upstream) fn expect_head(&mut self, deadline: Option<Instant>) {
        match deadline {
            Some(at) => self.deadline.set(at),
            None => self.deadline.clear(),
        }
    }

    /// Returns the connection if it speaks HTTP/1.1.
    pub(in crate::upstream) fn http1(&mut self) -> Option<&mut Http1Connection> {
        match &mut self.sender {
            Sender::Http1(connection) => Some(connection),
            Sender::Http2(_) => None,
        }
    }

    /// Returns the connection when the rest of its request has been sent, or cannot be; `None` after `timeout`.
    pub(super) async fn finish_upload(mut self: Box<Self>, timeout: Option<Duration>) -> Option<Box<Self>> {
        if let Some(http1) = self.http1() {
            tokio::time::timeout(timeout.unwrap_or(MAX_REST), http1.finish_upload()).await.ok()?;
        }
        Some(self)
    }

    /// Returns true for HTTP/2.
    #[must_use]
    pub fn is_http2(&self) -> bool {
        matches!(self.sender, Sender::Http2(..))
    }
}
