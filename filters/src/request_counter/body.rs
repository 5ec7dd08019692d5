//! Counts of one request, and bodies that count their bytes.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll, ready};

use bytes::Buf;
use http::{Method, StatusCode};
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

use tollgate_limiter::metering::{Counts, Meter, UsageName};

pin_project! {
    /// Body that counts its data bytes as they are polled, without framing and trailers.
    #[derive(Debug)]
    pub struct Counted<B> {
        #[pin]
        inner: B,
        tally: Arc<Tally>,
        is_response: bool,
    }
}

impl<B> Counted<B> {
    pub(super) fn request(inner: B, tally: Arc<Tally>) -> Self {
        Self { inner, tally, is_response: false }
    }

    pub(super) fn response(inner: B, tally: Arc<Tally>) -> Self {
        Self { inner, tally, is_response: true }
    }

    /// Returns the inner body.
    pub fn get_ref(&self) -> &B {
        &self.inner
    }

    /// Returns the inner body, which is no longer counted.
    pub fn into_inner(self) -> B {
        self.inner
    }
}

impl<B: Body> Body for Counted<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let this = self.project();
        let frame = ready!(this.inner.poll_frame(cx));
        if let Some(Ok(frame)) = &frame
            && let Some(data) = frame.data_ref()
        {
            let count = if *this.is_response { &this.tally.bytes_out } else { &this.tally.bytes_in };
            add(count, data.remaining() as u64);
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

/// Adds without an atomic add: only this body writes the count.
fn add(count: &AtomicU64, bytes: u64) {
    count.store(count.load(Relaxed).saturating_add(bytes), Relaxed);
}

/// Counts of one request, shared by both its bodies. Dropping the last reference adds them to the meter.
#[derive(Debug)]
pub(super) struct Tally {
    meter: Arc<Meter>,
    name: Option<UsageName>,
    method: &'static str,
    /// 0 before the response.
    status: AtomicU16,
    bytes_in: AtomicU64,
    bytes_out: AtomicU64,
}

impl Tally {
    pub(super) fn new(meter: Arc<Meter>, name: UsageName, method: &Method) -> Self {
        let (status, bytes_in, bytes_out) = Default::default();
        Self { meter, name: Some(name), method: method_label(method), status, bytes_in, bytes_out }
    }

    pub(super) fn set_status(&self, status: StatusCode) {
        self.status.store(status.as_u16(), Relaxed);
    }
}

impl Drop for Tally {
    fn drop(&mut self) {
        let Some(name) = self.name.take() else { return };
        let counts = Counts { requests: 1, bytes_in: *self.bytes_in.get_mut(), bytes_out: *self.bytes_out.get_mut() };
        self.meter.count(name, self.method, *self.status.get_mut(), &counts);
    }
}

/// Returns the method's name, `OTHER` for unknown methods: clients may invent any token (RFC 9110 §9.1).
fn method_label(method: &Method) -> &'static str {
    const KNOWN: [&str; 9] = ["GET", "POST", "PUT", "DELETE", "HEAD", "PATCH", "OPTIONS", "CONNECT", "TRACE"];
    KNOWN.into_iter().find(|known| *known == method.as_str()).unwrap_or("OTHER")
}
