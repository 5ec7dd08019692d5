//! Connection that takes requests.

use http::{HeaderName, HeaderValue, Request, Response, StatusCode};
use http_body::Body as _;
use hyper::body::Incoming;
use hyper::client::conn::{TrySendError, http1};
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::http::body::Body;
use crate::http::deadline::Deadline;
use crate::http::read_ahead::ReadAhead;
use crate::upstream::interim::InterimRelay;
use crate::upstream::pool::head_limit::HeadLimit;
use crate::upstream::pool::http2::OpenStream;
use crate::upstream::pool::name_lookup::Peer;

/// Header fields in a list, which costs less to fill than a map.
pub(in crate::upstream) type FieldList = Vec<(HeaderName, HeaderValue)>;

/// Longest list that a connection keeps.
const MAX_FIELDS_KEPT: usize = 32;

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
    /// Empty list for the copy of the next request head.
    pub(super) list: FieldList,
}

/// Sender of requests.
#[derive(Debug)]
pub enum Sender {
    /// HTTP/1.1: one request after the other.
    Http1(Http1Sender),
    /// One stream of an HTTP/2 connection that other requests share.
    Http2(OpenStream),
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

    /// Starts an exchange: sends the request. Interim responses go to `relay`.
    pub(in crate::upstream) fn send(
        &mut self,
        request: Request<Body>,
        relay: Option<InterimRelay>,
    ) -> impl Future<Output = Result<Response<Incoming>, TrySendError<Request<Body>>>> + use<> {
        self.is_exchanging = true;
        self.head_limit.read_ahead().start(request.body().is_end_stream());
        self.head_limit.expect_head(relay);
        self.sender.try_send_request(request)
    }

    /// Ends an exchange: the response was read to its end. The rest of the request may still be sent.
    pub(super) fn finish(&mut self) {
        self.is_exchanging = false;
        self.head_limit.read_ahead().finish();
    }
}

impl Drop for Http1Sender {
    fn drop(&mut self) {
        self.head_limit.read_ahead().close();
        if self.is_exchanging {
            self.task.abort();
        }
    }
}

impl Connection {
    pub(super) fn new(sender: Sender, since_secs: u64, permit: Option<OwnedSemaphorePermit>) -> Box<Self> {
        let (deadline, list) = (Deadline::default(), FieldList::new());
        Box::new(Self { sender, deadline, since_secs, idle_since_secs: since_secs, peer: None, permit, list })
    }

    /// Returns true if it can take a request now.
    pub(super) fn is_ready(&self) -> bool {
        match &self.sender {
            Sender::Http1(connection) => connection.sender.is_ready(),
            Sender::Http2(stream) => stream.is_usable(),
        }
    }

    /// Applies the limits of a response head, which must arrive before the deadline.
    pub(in crate::upstream) fn expect_head(&mut self, deadline: Option<Instant>) {
        match deadline {
            Some(at) => self.deadline.set(at),
            None => self.deadline.clear(),
        }
    }

    /// Applies the limits of what follows `response`; `None` if no response head arrived.
    pub(in crate::upstream) fn head_received<B>(&mut self, response: Option<&Response<B>>) {
        self.deadline.clear();
        if let Sender::Http1(http1) = &self.sender {
            let switches = |response: &Response<B>| response.status() == StatusCode::SWITCHING_PROTOCOLS;
            http1.head_limit.head_received(response.is_some_and(switches));
        }
    }

    /// Takes the list for the copy of a request head.
    pub(in crate::upstream) fn take_list(&mut self) -> FieldList {
        std::mem::take(&mut self.list)
    }

    /// Keeps the memory of a list for the next request.
    pub(in crate::upstream) fn keep_list(&mut self, mut list: FieldList) {
        list.clear();
        if list.capacity() <= MAX_FIELDS_KEPT {
            self.list = list;
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

    /// Returns true for HTTP/2.
    #[must_use]
    pub fn is_http2(&self) -> bool {
        matches!(self.sender, Sender::Http2(..))
    }

    pub(super) fn is_closed(&self) -> bool {
        match &self.sender {
            Sender::Http1(connection) => connection.sender.is_closed(),
            Sender::Http2(stream) => !stream.is_usable(),
        }
    }
}
