//! HTTP/1.1 connections. A connection has no task: the request that uses it drives it, and the body of its response.

mod chunks;
mod error;
mod fields;
mod read_sizes;
mod reader;
mod request;
mod tunnel;
mod upload;

use std::cell::RefCell;
use std::future::{Future as _, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};

use bytes::{BufMut as _, Bytes};
use http::request::Parts;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body::{Frame, SizeHint};
use tokio::io::AsyncReadExt as _;
use tokio::task::coop::unconstrained;
use tokio::task::{JoinHandle, spawn_local};

pub use self::error::Http1Error;
use self::read_sizes::ReadSizes;
pub use self::reader::{HeadLimits, ResponseReader};
pub(in crate::upstream) use self::tunnel::UpstreamTunnel;
use self::upload::Upload;
use crate::http::body::{Body, BodyError};
use crate::http::upgrade::TunnelStream;
use crate::upstream::interim::InterimRelay;

/// Socket of a connection. The response is read from it while a task may write the rest of the request.
type SharedIo = Rc<RefCell<dyn TunnelStream>>;

/// HTTP/1.1 connection: one request after the other. If it is dropped during an exchange, it closes at once.
pub struct Http1Connection {
    io: SharedIo,
    reader: ResponseReader,
    sizes: ReadSizes,
    upload: Upload,
    /// Task that writes the rest of a request whose response has begun.
    upload_task: Option<JoinHandle<Result<Upload, Http1Error>>>,
    /// Request whose response head is expected. Its map of fields is used again.
    sent: Option<Parts>,
    /// True if the request has no body.
    is_bodiless: bool,
    relay: Option<InterimRelay>,
    is_exchanging: bool,
    /// True if no further request is sent.
    closes: bool,
    /// True if a poll of the body has left time to write its latest part.
    has_yielded: bool,
}

impl Http1Connection {
    pub(super) fn new(io: impl TunnelStream + 'static, limits: HeadLimits) -> Self {
        Self {
            io: Rc::new(RefCell::new(io)),
            reader: ResponseReader::new(limits),
            sizes: ReadSizes::default(),
            upload: Upload::default(),
            upload_task: None,
            sent: None,
            is_bodiless: true,
            relay: None,
            is_exchanging: false,
            closes: false,
            has_yielded: false,
        }
    }

    /// Begins an exchange: writes what the socket takes of the request. Interim responses go to `relay`.
    pub(in crate::upstream) fn start(&mut self, request: Request<Body>, relay: Option<InterimRelay>) {
        let (head, body) = request.into_parts();
        self.is_exchanging = true;
        self.relay = relay;
        self.is_bodiless = http_body::Body::is_end_stream(&body);
        self.sizes.start();
        self.closes |= self.upload.begin(&head, body);
        self.sent = Some(head);
        if self.is_bodiless {
            // A later poll registers its task.
            let _ = self.upload.poll(&self.io, &mut Context::from_waker(Waker::noop()));
        }
    }

    /// Returns the request, if it has no body and its response head has not arrived.
    pub(in crate::upstream) fn take_request(&mut self) -> Option<Request<Body>> {
        self.sent.take().filter(|_| self.is_bodiless).map(|head| Request::from_parts(head, Body::default()))
    }

    /// Writes the rest of the request, and reads the response head. A response may come before the end of the request: a task
    /// writes the rest of that.
    pub(in crate::upstream) fn poll_head(&mut self, cx: &mut Context<'_>) -> Poll<Result<Response<()>, Http1Error>> {
        if !self.upload.is_complete()
            && let Poll::Ready(written) = self.upload.poll(&self.io, cx)
        {
            written?;
        }
        if self.upload.is_unsent() && self.is_bodiless {
            return Poll::Ready(Err(Http1Error::Unsent));
        }
        loop {
            if let Some(response) = self.read_head()? {
                return Poll::Ready(self.begin_response(response));
            }
            if ready!(self.poll_read(cx)).map_err(Http1Error::Io)? == 0 {
                return Poll::Ready(Err(Http1Error::Incomplete));
            }
        }
    }

    fn read_head(&mut self) -> Result<Option<Response<()>>, Http1Error> {
        if self.reader.buffer.is_empty() {
            return Ok(None);
        }
        let Self { reader, sent, relay, .. } = self;
        let mut unused = HeaderMap::new();
        let (is_head, spare) = match sent {
            Some(sent) => (sent.method == Method::HEAD, &mut sent.headers),
            None => (false, &mut unused),
        };
        reader.head(is_head, spare, |status, headers| {
            if let Some(relay) = relay {
                relay.relay(status, headers);
            }
        })
    }

    fn begin_response(&mut self, response: Response<()>) -> Result<Response<()>, Http1Error> {
        (self.sent, self.relay) = (None, None);
        if self.upload.is_complete() {
            return Ok(response);
        }
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            return Err(Http1Error::Invalid("a switch of protocols before the end of the request"));
        }
        let (mut upload, io) = (std::mem::take(&mut self.upload), Rc::clone(&self.io));
        self.upload_task = Some(spawn_local(Box::pin(async move {
            poll_fn(|cx| upload.poll(&io, cx)).await?;
            Ok(upload)
        })));
        Ok(response)
    }

    /// Returns the next frame of the body that has been received.
    pub(in crate::upstream) fn received_frame(&mut self) -> Result<Option<Frame<Bytes>>, BodyError> {
        self.reader.frame().map_err(broken)
    }

    /// Reads the next frame of the body. It fails with the request body that is still being sent.
    pub(in crate::upstream) fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        loop {
            match self.received_frame() {
                Ok(None) if self.reader.has_ended() => return Poll::Ready(None),
                Ok(None) => {}
                frame => return Poll::Ready(frame.transpose()),
            }
            // Once the server has written the latest part, its memory is used again.
            let is_lent = self.sizes.is_lent(&mut self.reader.buffer);
            if is_lent && !std::mem::replace(&mut self.has_yielded, true) {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            self.has_yielded = false;
            let read = match self.poll_read(cx) {
                Poll::Ready(Ok(0)) => self.reader.close(),
                Poll::Ready(read) => read.map(drop).map_err(Http1Error::Io),
                Poll::Pending => match self.poll_upload(cx) {
                    Poll::Ready(Err(Http1Error::RequestBody(error))) => return Poll::Ready(Some(Err(error))),
                    Poll::Ready(written) => written,
                    Poll::Pending => return Poll::Pending,
                },
            };
            if let Err(error) = read {
                return Poll::Ready(Some(Err(broken(error))));
            }
        }
    }

    /// Returns true if the response has been read to its end.
    pub(in crate::upstream) fn has_ended(&self) -> bool {
        self.reader.has_ended()
    }

    /// Returns the size of the rest of the body.
    pub(in crate::upstream) fn size_hint(&self) -> SizeHint {
        self.reader.size_hint()
    }

    /// Completes once when the task has written the rest of the request.
    fn poll_upload(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Http1Error>> {
        let Some(task) = &mut self.upload_task else { return Poll::Pending };
        let written = ready!(Pin::new(task).poll(cx));
        self.upload_task = None;
        match written {
            Ok(Ok(upload)) => {
                self.upload = upload;
                Poll::Ready(Ok(()))
            }
            Ok(Err(error)) => Poll::Ready(Err(error)),
            Err(_) => Poll::Ready(Err(Http1Error::Incomplete)),
        }
    }

    /// Ends an exchange: the response was read to its end. Returns true if the rest of the request is still being sent.
    pub(super) fn finish(&mut self) -> bool {
        self.is_exchanging = false;
        self.sizes.finish();
        self.upload_task.is_some()
    }

    /// Waits until the rest of the request has been sent, or the upstream ends the connection or sends more.
    pub(super) async fn finish_upload(&mut self) {
        let mut has_ended = false;
        let written = poll_fn(|cx| {
            has_ended = self.poll_read(cx).is_ready();
            if has_ended { Poll::Ready(Ok(())) } else { self.poll_upload(cx) }
        })
        .await;
        self.closes |= has_ended || written.is_err();
    }

    /// Returns true if the latest exchange left it as one that takes another request.
    pub(super) fn is_reusable(&self) -> bool {
        !self.closes && self.upload_task.is_none() && !self.upload.has_failed() && self.reader.is_reusable()
    }

    /// Returns true if it takes a request now: it is open, and the upstream has sent nothing that no request asked for.
    pub(super) fn is_open(&mut self) -> bool {
        if !self.is_reusable() {
            return false;
        }
        // The budget of the current task hides no bytes.
        let reading = pin!(unconstrained(poll_fn(|cx| self.poll_read(cx))));
        reading.poll(&mut Context::from_waker(Waker::noop())).is_pending()
    }

    /// Returns the connection as a tunnel, after a response with status 101.
    pub(in crate::upstream) fn tunnel(&mut self) -> UpstreamTunnel {
        self.closes = true;
        UpstreamTunnel::new(Rc::clone(&self.io), self.reader.buffer.split().freeze())
    }

    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let limit = self.sizes.prepare(&mut self.reader.buffer);
        let mut io = self.io.borrow_mut();
        let mut room = (&mut self.reader.buffer).limit(limit);
        let length = ready!(pin!(io.read_buf(&mut room)).poll(cx))?;
        self.sizes.read(length);
        Poll::Ready(Ok(length))
    }
}

fn broken(error: Http1Error) -> BodyError {
    BodyError::Upstream(Box::new(error))
}

impl std::fmt::Debug for Http1Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Http1Connection").field("reader", &self.reader).finish_non_exhaustive()
    }
}

impl Drop for Http1Connection {
    fn drop(&mut self) {
        if let Some(task) = &self.upload_task {
            task.abort();
        }
        if !self.is_exchanging {
            // TLS announces the end of the connection.
            let _ = Pin::new(&mut *self.io.borrow_mut()).poll_shutdown(&mut Context::from_waker(Waker::noop()));
        }
    }
}

#[cfg(test)]
mod tests;
