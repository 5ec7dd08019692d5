//! Response bodies as the server sends them over HTTP/1.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http_body::{Body as HttpBody, Frame, SizeHint};

use crate::http::busy::BusyGuard;
use crate::server::activity::Activity;

/// Response body that keeps its connection busy until it ends, and stops while the client does not read. hyper alone
/// would ask for more of the body while the socket accepts no bytes.
#[derive(Debug)]
pub(super) struct ServedBody<B> {
    body: B,
    socket: Arc<Activity>,
    _busy: Option<BusyGuard>,
}

impl<B> ServedBody<B> {
    pub(super) fn new(body: B, socket: Arc<Activity>, busy: Option<BusyGuard>) -> Self {
        Self { body, socket, _busy: busy }
    }
}

impl<B: HttpBody + Unpin> HttpBody for ServedBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        // The socket wakes the task when all bytes have been written.
        if self.socket.is_write_blocked() {
            return Poll::Pending;
        }
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
