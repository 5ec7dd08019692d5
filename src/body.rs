//! The one body type of requests and answers on their way through: streamed, never collected.

use std::cell::Cell;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use hyper::body::Incoming;
use thiserror::Error;
use tokio::time::Instant;
use tollgate_filters::concurrency_limiter::Leased;
use tollgate_filters::request_counter::Counted;
use tollgate_filters::request_rate_limiter::Metered;
use tollgate_filters::request_size::SizeLimited;
use tower::BoxError;

use crate::deadline::Deadline;
use crate::server::io::{Activity, Busy};
use crate::telemetry::record::Record;
use crate::upstream::pool::Lease;

/// Bytes of a refused request's body that are read and thrown away so that the connection can go on, or so that the
/// client reads the refusal before it meets a closed socket; past that the connection is closed.
const DRAIN_BYTES: u64 = 256 * 1024;
/// How long that may take.
const DRAIN_TIME: Duration = Duration::from_secs(5);

/// A request's or an answer's body.
#[derive(Debug, Default)]
pub struct Body {
    kind: Kind,
    record: Option<Box<Record>>,
}

#[derive(Debug, Default)]
enum Kind {
    #[default]
    Empty,
    Full(Bytes),
    Client(Box<ClientBody>),
    Limited(Box<SizeLimited<Body>>),
    Counted(Box<Counted<Body>>),
    Leased(Box<Leased<Body>>),
    Metered(Box<Metered<Body>>),
    Upstream(Box<UpstreamBody>),
}

/// Why a body ended before its end.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum BodyError {
    /// The client left, or broke HTTP's framing.
    #[error("the client's body broke off")]
    Client(#[source] hyper::Error),
    /// The client sent nothing for `server.body-timeout`.
    #[error("the client sent no more of its body in time")]
    ClientStalled,
    /// A body held to a size by `RequestSize` or `server.max-body-size` failed: it was larger
    /// ([`BodyTooLarge`](tollgate_filters::request_size::BodyTooLarge)), or of a reason of its own.
    #[error("the size-limited body failed")]
    Limited(#[source] BoxError),
    /// The upstream closed or reset the connection, or broke HTTP's framing.
    #[error("the upstream's body broke off")]
    Upstream(#[source] hyper::Error),
    /// The upstream sent nothing for `httpclient.read-timeout`.
    #[error("the upstream sent no more of its body in time")]
    UpstreamStalled,
}

impl Body {
    /// A client's request body.
    ///
    /// `patience` is how long the client may send nothing; `drains` whether a part left unread is read and thrown
    /// away when the body is dropped: HTTP/1 only, where it stands between us and the next request, and never for a
    /// client that still waits for `100 Continue`. The connection of `activity` counts as busy until nothing more is
    /// read of the body.
    #[must_use]
    pub fn from_client(incoming: Incoming, patience: Duration, drains: bool, activity: &Arc<Activity>) -> Self {
        if incoming.is_end_stream() {
            return Self::default();
        }
        let body = ClientBody {
            incoming: Some(incoming),
            stall: Deadline::default(),
            patience,
            drains,
            upload: Rc::new(Upload::default()),
            busy: Some(activity.busy()),
        };
        Kind::Client(Box::new(body)).into()
    }

    /// An upstream's answer; `lease` goes back to its pool when the body has been read to its end.
    #[must_use]
    pub fn from_upstream(incoming: Incoming, lease: Lease, patience: Duration) -> Self {
        if incoming.is_end_stream() {
            lease.give_back();
            return Self::default();
        }
        Kind::Upstream(Box::new(UpstreamBody { incoming, lease: Some(lease), patience })).into()
    }

    /// Attaches the request's record, which is closed when the body has been sent or is dropped.
    #[must_use]
    pub fn recorded(mut self, record: Box<Record>) -> Self {
        self.record = Some(record);
        self
    }

    /// The progress of the client's upload, if this is one.
    #[must_use]
    pub fn upload(&self) -> Option<Rc<Upload>> {
        match &self.kind {
            Kind::Client(body) => Some(Rc::clone(&body.upload)),
            Kind::Limited(body) => body.get_ref().upload(),
            Kind::Counted(body) => body.get_ref().upload(),
            Kind::Metered(body) => body.get_ref().upload(),
            _ => None,
        }
    }

    fn poll_kind(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match &mut self.kind {
            Kind::Empty => Poll::Ready(None),
            Kind::Full(bytes) => {
                let bytes = std::mem::take(bytes);
                self.kind = Kind::Empty;
                Poll::Ready((!bytes.is_empty()).then(|| Ok(Frame::data(bytes))))
            }
            Kind::Client(body) => body.poll(cx),
            Kind::Limited(body) => {
                Pin::new(&mut **body).poll_frame(cx).map(|frame| frame.map(|frame| frame.map_err(BodyError::Limited)))
            }
            Kind::Counted(body) => Pin::new(&mut **body).poll_frame(cx),
            Kind::Leased(body) => Pin::new(&mut **body).poll_frame(cx),
            Kind::Metered(body) => Pin::new(&mut **body).poll_frame(cx),
            Kind::Upstream(body) => body.poll(cx),
        }
    }
}

impl From<Kind> for Body {
    fn from(kind: Kind) -> Self {
        Self { kind, record: None }
    }
}

impl From<Bytes> for Body {
    fn from(bytes: Bytes) -> Self {
        if bytes.is_empty() { Self::default() } else { Kind::Full(bytes).into() }
    }
}

impl From<SizeLimited<Body>> for Body {
    fn from(limited: SizeLimited<Body>) -> Self {
        Kind::Limited(Box::new(limited)).into()
    }
}

impl From<Counted<Body>> for Body {
    fn from(counted: Counted<Body>) -> Self {
        // Of a body without bytes there is nothing to count.
        if counted.is_end_stream() { counted.into_inner() } else { Kind::Counted(Box::new(counted)).into() }
    }
}

impl From<Leased<Body>> for Body {
    fn from(leased: Leased<Body>) -> Self {
        // Without a body the request is over; without a slot there is nothing to give back.
        if leased.is_end_stream() || !leased.holds() {
            leased.into_inner()
        } else {
            Kind::Leased(Box::new(leased)).into()
        }
    }
}

impl From<Metered<Body>> for Body {
    fn from(metered: Metered<Body>) -> Self {
        Kind::Metered(Box::new(metered)).into()
    }
}

impl HttpBody for Body {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        if let Some(record) = &self.record {
            record.asked();
        }
        let frame = ready!(self.poll_kind(cx));
        if let Some(record) = &mut self.record {
            match &frame {
                Some(Ok(frame)) => record.sent(frame.data_ref().map_or(0, Bytes::len)),
                Some(Err(error)) => record.broke_off(error),
                None => {}
            }
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        match &self.kind {
            Kind::Empty => true,
            Kind::Full(_) => false,
            Kind::Client(body) => body.incoming.as_ref().is_none_or(HttpBody::is_end_stream),
            Kind::Limited(body) => body.is_end_stream(),
            Kind::Counted(body) => body.is_end_stream(),
            Kind::Leased(body) => body.is_end_stream(),
            Kind::Metered(body) => body.is_end_stream(),
            Kind::Upstream(body) => body.incoming.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            Kind::Empty => SizeHint::with_exact(0),
            Kind::Full(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Kind::Client(body) => body.incoming.as_ref().map_or_else(|| SizeHint::with_exact(0), HttpBody::size_hint),
            Kind::Limited(body) => body.size_hint(),
            Kind::Counted(body) => body.size_hint(),
            Kind::Leased(body) => body.size_hint(),
            Kind::Metered(body) => body.size_hint(),
            Kind::Upstream(body) => body.incoming.size_hint(),
        }
    }
}

/// How far a client's upload has come: while it flows, an upstream that waits for its end is not late.
#[derive(Debug, Default)]
pub struct Upload {
    last: Cell<Option<Instant>>,
}

impl Upload {
    /// When the latest piece came; `None` before the first.
    #[must_use]
    pub fn last_progress(&self) -> Option<Instant> {
        self.last.get()
    }
}

#[derive(Debug)]
struct ClientBody {
    incoming: Option<Incoming>,
    stall: Deadline,
    patience: Duration,
    drains: bool,
    upload: Rc<Upload>,
    busy: Option<Busy>,
}

impl ClientBody {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let Some(incoming) = &mut self.incoming else { return Poll::Ready(None) };
        match Pin::new(incoming).poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => {
                self.stall.clear();
                self.upload.last.set(Some(Instant::now()));
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(Some(Err(error))) => {
                self.ended();
                Poll::Ready(Some(Err(BodyError::Client(error))))
            }
            Poll::Ready(None) => {
                self.ended();
                Poll::Ready(None)
            }
            Poll::Pending => {
                if !self.stall.is_set() {
                    self.stall.set(Instant::now() + self.patience);
                }
                ready!(self.stall.poll_expired(cx));
                self.ended();
                Poll::Ready(Some(Err(BodyError::ClientStalled)))
            }
        }
    }

    fn ended(&mut self) {
        self.incoming = None;
        self.busy = None;
    }
}

impl Drop for ClientBody {
    fn drop(&mut self) {
        if let Some(incoming) = self.incoming.take()
            && self.drains
            && !incoming.is_end_stream()
        {
            let busy = self.busy.take();
            tokio::task::spawn_local(async move {
                let _ = tokio::time::timeout(DRAIN_TIME, drain(incoming)).await;
                drop(busy);
            });
        }
    }
}

async fn drain(mut incoming: Incoming) {
    let mut left = DRAIN_BYTES;
    while let Some(Ok(frame)) = std::future::poll_fn(|cx| Pin::new(&mut incoming).poll_frame(cx)).await {
        let length = frame.data_ref().map_or(0, |data| data.len() as u64);
        if length > left {
            return;
        }
        left -= length;
    }
}

#[derive(Debug)]
struct UpstreamBody {
    incoming: Incoming,
    lease: Option<Lease>,
    patience: Duration,
}

impl UpstreamBody {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match Pin::new(&mut self.incoming).poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => {
                // Trailers are the last frame: a server does not ask for another.
                if self.incoming.is_end_stream() || frame.is_trailers() {
                    self.ended();
                } else if let Some(lease) = &mut self.lease {
                    lease.deadline().clear();
                }
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(Some(Err(error))) => {
                self.lease = None;
                Poll::Ready(Some(Err(BodyError::Upstream(error))))
            }
            Poll::Ready(None) => {
                self.ended();
                Poll::Ready(None)
            }
            Poll::Pending => {
                let Some(lease) = &mut self.lease else { return Poll::Pending };
                let deadline = lease.deadline();
                if !deadline.is_set() {
                    deadline.set(Instant::now() + self.patience);
                }
                ready!(deadline.poll_expired(cx));
                self.lease = None;
                Poll::Ready(Some(Err(BodyError::UpstreamStalled)))
            }
        }
    }

    fn ended(&mut self) {
        if let Some(lease) = self.lease.take() {
            lease.give_back();
        }
    }
}
