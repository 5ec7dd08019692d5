//! Request body on a stream of an HTTP/2 connection.

use std::cell::RefCell;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};

use bytes::Bytes;
use h2::{Reason, SendStream};
use http_body::Body as _;
use tokio::task::JoinHandle;

use crate::http::body::{Body, BodyError, IncomingError};
use tollgate_transport::causes;
use tollgate_transport::executor::spawn_boxed;

/// Task that sends the rest of a request body. On drop it ends, and the stream is reset.
#[derive(Debug)]
pub(super) struct UploadTask {
    task: Option<JoinHandle<()>>,
    failure: Rc<RefCell<Option<BodyError>>>,
}

/// Body and its stream, which is reset if it is dropped before the end.
struct Upload {
    body: Body,
    stream: SendStream<Bytes>,
    /// Part that waits for the upstream's window, and true if it is the last one.
    part: Option<(Bytes, bool)>,
    is_over: bool,
}

/// End of an upload before that of its body.
enum UploadError {
    /// The body failed.
    Body(BodyError),
    /// The upstream reset the stream, or the connection has ended.
    Reset,
    /// HTTP/2 cannot carry a part, or the trailers.
    Invalid,
}

impl From<h2::Error> for UploadError {
    fn from(_: h2::Error) -> Self {
        Self::Invalid
    }
}

impl UploadTask {
    /// Sends what is there of `body`. If that is not all, a task sends the rest and keeps what `hold` returns.
    pub(super) fn start<T: 'static>(body: Body, stream: SendStream<Bytes>, hold: impl FnOnce() -> T) -> Option<Self> {
        let mut upload = Upload { body, stream, part: None, is_over: false };
        let failure = Rc::<RefCell<Option<BodyError>>>::default();
        let task = match upload.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Ok(()) | Err(UploadError::Reset | UploadError::Invalid)) => return None,
            Poll::Ready(Err(UploadError::Body(error))) => {
                failure.replace(Some(error));
                None
            }
            Poll::Pending => {
                let (held, noted) = (hold(), Rc::clone(&failure));
                Some(spawn_boxed(async move {
                    let _held = held;
                    if let Err(UploadError::Body(error)) = poll_fn(|cx| upload.poll(cx)).await {
                        noted.replace(Some(error));
                    }
                }))
            }
        };
        Some(Self { task, failure })
    }

    /// Lets the task go on without the response.
    pub(super) fn detach(mut self) {
        self.task = None;
    }

    /// Returns the error of the body, if it failed.
    pub(super) fn take_failure(&self) -> Option<BodyError> {
        self.failure.take()
    }
}

impl Drop for UploadTask {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

impl Upload {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), UploadError>> {
        let sent = ready!(self.poll_send(cx));
        let reason = match &sent {
            Ok(()) | Err(UploadError::Reset) => None,
            Err(UploadError::Body(error)) => {
                let reason = causes(error).find_map(|cause| match cause.downcast_ref()? {
                    IncomingError::Http2(error) => error.reason(),
                    IncomingError::Http1(_) => None,
                });
                Some(reason.unwrap_or(Reason::INTERNAL_ERROR))
            }
            Err(UploadError::Invalid) => Some(Reason::INTERNAL_ERROR),
        };
        if let Some(reason) = reason {
            self.stream.send_reset(reason);
        }
        self.is_over = true;
        Poll::Ready(sent)
    }

    /// Sends the body part by part: each when the upstream takes at least a byte of it.
    fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), UploadError>> {
        loop {
            if self.stream.poll_reset(cx).is_ready() {
                return Poll::Ready(Err(UploadError::Reset));
            }
            let Some((part, _)) = &self.part else {
                if ready!(self.poll_part(cx))? {
                    return Poll::Ready(Ok(()));
                }
                continue;
            };
            while !part.is_empty() && self.stream.capacity() == 0 {
                match ready!(self.stream.poll_capacity(cx)) {
                    Some(Ok(_)) => {}
                    Some(Err(_)) | None => return Poll::Ready(Err(UploadError::Reset)),
                }
            }
            if let Some((part, is_last)) = self.part.take() {
                self.stream.send_data(part, is_last)?;
                if is_last {
                    return Poll::Ready(Ok(()));
                }
            }
        }
    }

    /// Takes the next part of the body. Returns true if there is none, and the stream has ended.
    fn poll_part(&mut self, cx: &mut Context<'_>) -> Poll<Result<bool, UploadError>> {
        let Some(frame) = ready!(Pin::new(&mut self.body).poll_frame(cx)).transpose().map_err(UploadError::Body)?
        else {
            self.stream.send_data(Bytes::new(), true)?;
            return Poll::Ready(Ok(true));
        };
        match frame.into_data() {
            Ok(part) => {
                // For a part that is there only, since the streams share the window of their connection.
                if !part.is_empty() {
                    self.stream.reserve_capacity(1);
                }
                self.part = Some((part, self.body.is_end_stream()));
                Poll::Ready(Ok(false))
            }
            Err(frame) => {
                let Ok(trailers) = frame.into_trailers() else { return Poll::Ready(Ok(false)) };
                self.stream.reserve_capacity(0);
                self.stream.send_trailers(trailers)?;
                Poll::Ready(Ok(true))
            }
        }
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        if !self.is_over {
            self.stream.send_reset(Reason::CANCEL);
        }
    }
}
