//! Stream that remembers its first read error.
//!
//! hyper reports to the requests of an HTTP/2 connection only that it is closed. An alert of TLS 1.3, such as
//! "certificate required", arrives when the connection is already established.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, ReadBuf};

use crate::upstream::pool::read_hook::{HookedIo, ReadHook};

/// First read error of a stream.
pub(super) type CapturedError = Arc<OnceLock<String>>;

/// Wraps `inner`, so that its first read error is stored in the [`CapturedError`].
pub(super) fn capture_error<S>(inner: S) -> (HookedIo<S, CapturedError>, CapturedError) {
    let captured = CapturedError::default();
    (HookedIo::new(inner, Arc::clone(&captured)), captured)
}

impl ReadHook for CapturedError {
    fn poll_read<S: AsyncRead>(
        &self,
        inner: Pin<&mut S>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = inner.poll_read(cx, buf);
        if let Poll::Ready(Err(error)) = &read {
            let _ = self.set(error.to_string());
        }
        read
    }
}
