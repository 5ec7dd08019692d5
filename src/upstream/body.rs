//! Response body of an upstream.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use hyper::body::Incoming;
use tokio::time::Instant;

use crate::http::body::{Body, BodyError};
use crate::upstream::lease::ConnectionLease;
use crate::upstream::outcome::Outcome;

/// Response body that returns its connection to the pool when it has been read to its end.
#[derive(Debug)]
struct UpstreamBody {
    incoming: Incoming,
    lease: Option<ConnectionLease>,
    timeout: Duration,
}

/// Wraps the response body of an upstream. It fails if the upstream sends nothing for `timeout`; `lease` returns to its
/// pool at the end.
#[must_use]
pub(super) fn response_body(incoming: Incoming, lease: ConnectionLease, timeout: Duration) -> Body {
    if incoming.is_end_stream() {
        lease.release();
        return Body::default();
    }
    Body::boxed(UpstreamBody { incoming, lease: Some(lease), timeout })
}

impl UpstreamBody {
    fn finish(&mut self) {
        if let Some(lease) = self.lease.take() {
            lease.release();
        }
    }
}

impl HttpBody for UpstreamBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = &mut *self;
        match Pin::new(&mut this.incoming).poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => {
                // Trailers are the last frame: a server does not poll for another.
                if this.incoming.is_end_stream() || frame.is_trailers() {
                    this.finish();
                } else if let Some(lease) = &mut this.lease {
                    lease.deadline().clear();
                }
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(Some(Err(error))) => {
                if let Some(lease) = this.lease.take() {
                    lease.report(Outcome::Disconnected);
                }
                Poll::Ready(Some(Err(BodyError::Upstream(error))))
            }
            Poll::Ready(None) => {
                this.finish();
                Poll::Ready(None)
            }
            Poll::Pending => {
                let Some(lease) = &mut this.lease else { return Poll::Pending };
                let deadline = lease.deadline();
                if !deadline.is_set() {
                    deadline.set(Instant::now() + this.timeout);
                }
                ready!(deadline.poll_expired(cx));
                lease.report(Outcome::TimedOut);
                this.lease = None;
                Poll::Ready(Some(Err(BodyError::UpstreamStalled)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }
}
