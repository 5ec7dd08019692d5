//! Counts of one request.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering::Relaxed};

use http::{Method, StatusCode};

use tollgate_limiter::metering::{Counts, Meter, UsageName};

/// Counts of one request, shared by both its bodies. Dropping the last reference adds them to the meter.
#[derive(Debug)]
pub(super) struct Tally {
    meter: Arc<Meter>,
    name: Option<UsageName>,
    method: &'static str,
    /// 0 before the response.
    status: AtomicU16,
    pub(super) bytes_in: AtomicU64,
    pub(super) bytes_out: AtomicU64,
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
