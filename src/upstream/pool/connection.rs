//! Connection that takes requests.

use hyper::client::conn::{http1, http2};
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::JoinHandle;

use crate::http::body::Body;
use crate::http::deadline::Deadline;
use crate::http::read_ahead::ReadAhead;
use crate::upstream::pool::head_limit::HeadLimit;
use crate::upstream::pool::http2::OpenStream;

/// Connection with the deadline of its current operation.
#[derive(Debug)]
pub struct Connection {
    /// Sends requests.
    pub sender: Sender,
    /// Deadline of the response head, then of each part of the body.
    pub deadline: Deadline,
    /// Second of the pool's clock in which it was established.
    pub(super) since_secs: u64,
    /// Share of the pool's connection limit.
    pub(super) permit: Option<OwnedSemaphorePermit>,
}

/// Sender of requests.
#[derive(Debug)]
pub enum Sender {
    /// HTTP/1.1: one request after the other.
    Http1(Http1Sender),
    /// One stream of an HTTP/2 connection that other requests share.
    Http2(http2::SendRequest<Body>, OpenStream),
}

/// Sender of an HTTP/1.1 connection. If it is dropped during an exchange, the connection closes at once. Otherwise an
/// upstream that reads nothing could hold the connection, and with it the request body of a client.
#[derive(Debug)]
pub struct Http1Sender {
    pub(super) sender: http1::SendRequest<Body>,
    pub(super) head_limit: HeadLimit,
    task: JoinHandle<()>,
    is_exchanging: bool,
}

impl Http1Sender {
    pub(super) fn new(sender: http1::SendRequest<Body>, head_limit: HeadLimit, task: JoinHandle<()>) -> Self {
        Self { sender, head_limit, task, is_exchanging: false }
    }

    /// Starts an exchange, with or without a request body. Returns what sends the request, and the limit of its response
    /// head.
    pub fn start(&mut self, has_body: bool) -> (&mut http1::SendRequest<Body>, &HeadLimit) {
        self.is_exchanging = true;
        self.head_limit.read_ahead().start(!has_body);
        self.head_limit.expect_head();
        (&mut self.sender, &self.head_limit)
    }

    /// Ends an exchange: the response was read to its end. The rest of the request may still be sent.
    pub(super) fn finish(&mut self) {
        self.is_exchanging = false;
        self.head_limit.read_ahead().finish();
    }
}

impl Drop for Http1Sender {
    fn drop(&mut self) {
        if self.is_exchanging {
            self.task.abort();
        }
    }
}

impl Connection {
    pub(super) fn new(sender: Sender, since_secs: u64) -> Self {
        Self { sender, deadline: Deadline::default(), since_secs, permit: None }
    }

    /// True if it can take a request now.
    pub(super) fn is_ready(&self) -> bool {
        match &self.sender {
            Sender::Http1(connection) => connection.sender.is_ready(),
            Sender::Http2(sender, _) => sender.is_ready(),
        }
    }

    /// Applies the limit of bytes until the next part of a response body.
    pub fn expect_body(&self) {
        if let Sender::Http1(http1) = &self.sender {
            http1.head_limit.expect_body();
        }
    }

    /// Returns when and how much is read; `None` for HTTP/2, where flow control decides.
    #[must_use]
    pub fn read_ahead(&self) -> Option<&ReadAhead> {
        match &self.sender {
            Sender::Http1(http1) => Some(http1.head_limit.read_ahead()),
            Sender::Http2(..) => None,
        }
    }

    /// True for HTTP/2.
    #[must_use]
    pub fn is_http2(&self) -> bool {
        matches!(self.sender, Sender::Http2(..))
    }

    pub(super) fn is_closed(&self) -> bool {
        match &self.sender {
            Sender::Http1(connection) => connection.sender.is_closed(),
            Sender::Http2(sender, _) => sender.is_closed(),
        }
    }
}
