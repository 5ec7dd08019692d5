//! Connection that takes requests.

use hyper::client::conn::{http1, http2};
use tokio::sync::OwnedSemaphorePermit;

use crate::http::body::Body;
use crate::http::deadline::Deadline;
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
    Http1(http1::SendRequest<Body>, HeadLimit),
    /// One stream of an HTTP/2 connection that other requests share.
    Http2(http2::SendRequest<Body>, OpenStream),
}

impl Connection {
    pub(super) fn new(sender: Sender, since_secs: u64) -> Self {
        Self { sender, deadline: Deadline::default(), since_secs, permit: None }
    }

    /// True if it can take a request now.
    pub(super) fn is_ready(&self) -> bool {
        match &self.sender {
            Sender::Http1(sender, _) => sender.is_ready(),
            Sender::Http2(sender, _) => sender.is_ready(),
        }
    }

    /// True for HTTP/2.
    #[must_use]
    pub fn is_http2(&self) -> bool {
        matches!(self.sender, Sender::Http2(..))
    }

    pub(super) fn is_closed(&self) -> bool {
        match &self.sender {
            Sender::Http1(sender, _) => sender.is_closed(),
            Sender::Http2(sender, _) => sender.is_closed(),
        }
    }
}
