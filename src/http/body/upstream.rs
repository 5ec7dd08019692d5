//! An upstream's answer.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use hyper::body::Incoming;
use tokio::time::Instant;

use crate::http::body::BodyError;
use crate::upstream::endpoints::Outcome;
use crate::upstream::pool::Lease;

#[derive(Debug)]
pub(super) struct UpstreamBody {
    incoming: Incoming,
    lease: Option<Lease>,
    patience: Duration,
}

impl UpstreamBody {
    pub(super) fn new(incoming: Incoming, lease: Lease, patience: Duration) -> Self {
        Self { incoming, lease: Some(lease), patience }
    }

    pub(super) fn is_end_stream(&self) -> bool {
        self.incoming.is_end_stream()
    }

    pub(super) fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }

    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
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
                if let Some(lease) = self.lease.take() {
                    lease.broke_off(Outcome::BrokeOff);
                }
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
                lease.broke_off(Outcome::TimedOut);
                self.lease = None;
                Poll::Ready(Some(Err(BodyError::UpstreamStalled)))
            }
        }
    }

    fn ended(&mut self) {
        if let Some(lease) = self.lease.take() {
            lease.return_leases();
        }
    }
}
