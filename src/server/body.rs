//! Response bodies as the server sends them.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http_body::{Body as HttpBody, Frame, SizeHint};

use crate::http::busy::BusyGuard;
use crate::server::write_stalls::ResponseStall;

/// Response body that keeps its connection busy until it ends, and records when the client stops reading it.
#[derive(Debug)]
pub(super) struct ServedBody<B> {
    body: B,
    /// HTTP/2 only.
    stall: Option<ResponseStall>,
    _busy: Option<BusyGuard>,
}

impl<B> ServedBody<B> {
    pub(super) fn new(body: B, stall: Option<ResponseStall>, busy: Option<BusyGuard>) -> Self {
        Self { body, stall, _busy: busy }
    }
}

impl<B: HttpBody + Unpin> HttpBody for ServedBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let Some(stall) = &self.stall else { return Pin::new(&mut self.body).poll_frame(cx) };
        stall.frame_requested();
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        if let Some(Ok(_)) = &frame
            && let Some(stall) = &self.stall
        {
            stall.frame_queued();
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
