//! The one body type of requests and answers on their way through: streamed, never collected.

mod client;
mod upstream;

use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use hyper::body::Incoming;
use thiserror::Error;
use tollgate_filters::concurrency_limiter::Leased;
use tollgate_filters::local_response_cache::Filling;
use tollgate_filters::replay::{ReplayBody, ReplayError};
use tollgate_filters::request_counter::Counted;
use tollgate_filters::request_rate_limiter::Metered;
use tollgate_filters::request_size::SizeLimited;
use tower::BoxError;

use self::client::ClientBody;
pub use self::client::Upload;
use self::upstream::UpstreamBody;
use crate::server::io::Activity;
use crate::telemetry::record::Record;
use crate::upstream::pool::Lease;

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
    Filling(Box<Filling<Body>>),
    Metered(Box<Metered<Body>>),
    Replayed(Box<ReplayBody<Body>>),
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
    /// The request is being sent again.
    #[error("the request is being sent again")]
    Superseded,
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
        Kind::Client(Box::new(ClientBody::new(incoming, patience, drains, activity.busy()))).into()
    }

    /// An upstream's answer; `lease` goes back to its pool when the body has been read to its end.
    #[must_use]
    pub fn from_upstream(incoming: Incoming, lease: Lease, patience: Duration) -> Self {
        if incoming.is_end_stream() {
            lease.give_back();
            return Self::default();
        }
        Kind::Upstream(Box::new(UpstreamBody::new(incoming, lease, patience))).into()
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
            Kind::Client(body) => Some(body.upload()),
            Kind::Limited(body) => body.get_ref().upload(),
            Kind::Counted(body) => body.get_ref().upload(),
            Kind::Metered(body) => body.get_ref().upload(),
            Kind::Replayed(body) => body.with_inner(Self::upload).flatten(),
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
            Kind::Filling(body) => Pin::new(&mut **body).poll_frame(cx),
            Kind::Metered(body) => Pin::new(&mut **body).poll_frame(cx),
            Kind::Replayed(body) => {
                Pin::new(&mut **body).poll_frame(cx).map(|frame| frame.map(|frame| frame.map_err(BodyError::from)))
            }
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

impl From<Filling<Body>> for Body {
    fn from(filling: Filling<Body>) -> Self {
        if filling.fills() { Kind::Filling(Box::new(filling)).into() } else { filling.into_inner() }
    }
}

impl From<ReplayBody<Body>> for Body {
    fn from(body: ReplayBody<Body>) -> Self {
        body.into_direct().unwrap_or_else(|recorded| Kind::Replayed(Box::new(recorded)).into())
    }
}

impl From<ReplayError<BodyError>> for BodyError {
    fn from(error: ReplayError<BodyError>) -> Self {
        match error {
            ReplayError::Inner(error) => error,
            ReplayError::Superseded => Self::Superseded,
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
                Some(Err(error)) => record.body_failed(error),
                None => {}
            }
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        match &self.kind {
            Kind::Empty => true,
            Kind::Full(_) => false,
            Kind::Client(body) => body.is_end_stream(),
            Kind::Limited(body) => body.is_end_stream(),
            Kind::Counted(body) => body.is_end_stream(),
            Kind::Leased(body) => body.is_end_stream(),
            Kind::Filling(body) => body.is_end_stream(),
            Kind::Metered(body) => body.is_end_stream(),
            Kind::Replayed(body) => body.is_end_stream(),
            Kind::Upstream(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            Kind::Empty => SizeHint::with_exact(0),
            Kind::Full(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Kind::Client(body) => body.size_hint(),
            Kind::Limited(body) => body.size_hint(),
            Kind::Counted(body) => body.size_hint(),
            Kind::Leased(body) => body.size_hint(),
            Kind::Filling(body) => body.size_hint(),
            Kind::Metered(body) => body.size_hint(),
            Kind::Replayed(body) => body.size_hint(),
            Kind::Upstream(body) => body.size_hint(),
        }
    }
}
