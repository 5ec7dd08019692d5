//! Response bodies as the server sends them over HTTP/1.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Buf;
use http_body::{Body as HttpBody, Frame, SizeHint};

use crate::http::busy::BusyGuard;
use crate::server::activity::Activity;

/// Bytes of a response after which they are written before more of it is requested.
const UNWRITTEN: usize = 16 * 1024;

/// Response body that keeps its connection busy until it ends, and stops while the client does not read. hyper alone
/// would ask for more of the body while the socket accepts no bytes, and before it has tried to write.
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
        // The connection polls again when all bytes have been written.
        if self.socket.holds_response(UNWRITTEN) {
            return Poll::Pending;
        }
        let frame = Pin::new(&mut self.body).poll_frame(cx);
        if let Poll::Ready(Some(Ok(frame))) = &frame
            && let Some(data) = frame.data_ref()
        {
            self.socket.add_unwritten(data.remaining());
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
