//! Counts of one request, and bodies that count their bytes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering::Relaxed};

use bytes::Buf;
use http::{Method, StatusCode};
use http_body::{Body, Frame};

use crate::observed_body::{FrameObserver, ObservedBody};
use tollgate_limiter::metering::{Counts, Meter, UsageName};

/// Body that counts its data bytes as they are polled, without framing and trailers.
pub type Counted<B> = ObservedBody<B, ByteCounter>;

/// Counts the bytes of a body.
#[derive(Debug)]
pub struct ByteCounter {
    pub(super) tally: Arc<Tally>,
    pub(super) is_response: bool,
}

impl<D: Buf> FrameObserver<D> for ByteCounter {
    fn observe<B: Body<Data = D>>(&mut self, frame: Option<&Result<Frame<D>, B::Error>>, _: &B) {
        if let Some(Ok(frame)) = frame
            && let Some(data) = frame.data_ref()
        {
            let count = if self.is_response { &self.tally.bytes_out } else { &self.tally.bytes_in };
            add(count, data.remaining() as u64);
        }
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
    const METHODS: [&str; 9] = ["GET", "POST", "PUT", "DELETE", "HEAD", "PATCH", "OPTIONS", "CONNECT", "TRACE"];
    METHODS.into_iter().find(|name| *name == method.as_str()).unwrap_or("OTHER")
}
