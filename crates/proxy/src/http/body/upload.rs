//! Progress of request bodies, as upstreams see it.

use std::cell::Cell;
use std::ops::Deref;
use std::rc::Rc;
use std::time::Duration;

use tokio::time::Instant;

use crate::http::failure::Failure;

/// Progress of a client's upload. The timeouts of an upstream do not run while the upload makes progress, nor while the gateway
/// waits, before there is a response, for a client that has a timeout.
#[derive(Debug, Default)]
pub struct UploadProgress {
    last: Cell<Option<Instant>>,
    waiting_since: Cell<Option<Instant>>,
    /// Time of the wait in which the body was dropped.
    last_wait: Cell<Duration>,
    bytes: Cell<u64>,
    is_over: Cell<bool>,
    failure: Cell<Option<UploadFailure>>,
    /// True if a silent client runs into a timeout.
    is_timed: Cell<bool>,
    response: Cell<ResponseState>,
}

/// Reason for which an upload ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UploadFailure {
    /// The client disconnected, or broke the framing.
    Broken,
    /// The client sent nothing for too long.
    TimedOut,
    /// The body is larger than allowed.
    TooLarge,
}

impl From<UploadFailure> for Failure {
    fn from(failure: UploadFailure) -> Self {
        match failure {
            UploadFailure::Broken => Self::ClientBody,
            UploadFailure::TimedOut => Self::ClientTimeout,
            UploadFailure::TooLarge => Self::TooLarge,
        }
    }
}

/// State of the response to an upload.
#[derive(Clone, Copy, Debug, Default)]
enum ResponseState {
    #[default]
    Awaited,
    Open,
    Ended(Instant),
}

/// Upload that goes on while its response is sent. Until this is dropped, the response's timeout applies to both, and the
/// client may be silent.
#[derive(Debug)]
pub struct ConcurrentUpload(Rc<UploadProgress>);

impl ConcurrentUpload {
    /// Notes that the response to `upload` begins. Returns `None` if the upload is complete.
    #[must_use]
    pub fn new(upload: Rc<UploadProgress>) -> Option<Self> {
        if upload.is_over() && upload.failure().is_none() {
            return None;
        }
        upload.response.set(ResponseState::Open);
        Some(Self(upload))
    }
}

impl Deref for ConcurrentUpload {
    type Target = UploadProgress;

    fn deref(&self) -> &UploadProgress {
        &self.0
    }
}

impl Drop for ConcurrentUpload {
    fn drop(&mut self) {
        self.0.response.set(ResponseState::Ended(Instant::now()));
    }
}

impl UploadProgress {
    /// Returns the arrival time of the latest frame; `None` before the first poll of the body. While the gateway waits for the
    /// client and not for the rest of a response, it is the current time, unless that wait has no limit of its own.
    #[must_use]
    pub fn last_progress(&self) -> Option<Instant> {
        match (self.response.get(), self.waiting_since.get()) {
            (ResponseState::Awaited, Some(_)) if self.is_timed.get() => Some(Instant::now()),
            _ => self.last.get(),
        }
    }

    pub(super) fn new(is_timed: bool) -> Self {
        Self { is_timed: Cell::new(is_timed), ..Self::default() }
    }

    pub(super) fn set_timed(&self, is_timed: bool) {
        self.is_timed.set(is_timed);
    }

    /// Returns true if the gateway has been waiting for the client for `time`, or had when the body was dropped.
    #[must_use]
    pub fn has_waited(&self, time: Duration) -> bool {
        self.waiting_since.get().map_or(self.last_wait.get(), |since| since.elapsed()) >= time
    }

    /// Returns true while the gateway waits for the client.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        self.waiting_since.get().is_some()
    }

    /// Notes that the next frame is not there.
    pub(super) fn waits(&self) {
        if self.waiting_since.get().is_none() {
            self.waiting_since.set(Some(Instant::now()));
        }
    }

    /// Notes a frame of `length` bytes, or the end.
    pub(super) fn arrived(&self, length: usize) {
        self.waiting_since.set(None);
        self.last.set(Some(Instant::now()));
        self.bytes.set(self.bytes.get() + length as u64);
    }

    /// Returns the bytes of the body that have been read.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes.get()
    }

    /// Returns true if the body has ended, failed or been dropped.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.is_over.get()
    }

    /// Returns the reason for which the body ended early.
    #[must_use]
    pub fn failure(&self) -> Option<UploadFailure> {
        self.failure.get()
    }

    /// Notes that the body ends early. The first reason counts.
    pub(super) fn fail(&self, failure: UploadFailure) {
        self.failure.set(self.failure.get().or(Some(failure)));
    }

    /// Notes that no more of the body is read.
    pub(super) fn end(&self) {
        self.is_over.set(true);
        if let Some(since) = self.waiting_since.take() {
            self.last_wait.set(since.elapsed());
        }
    }

    /// Returns the time until which a silent client is excused by the response, if it has `timeout`.
    pub(super) fn excused_until(&self, timeout: Duration) -> Option<Instant> {
        match self.response.get() {
            ResponseState::Awaited => None,
            ResponseState::Open => Some(Instant::now() + timeout),
            ResponseState::Ended(at) => Some(at + timeout).filter(|until| *until > Instant::now()),
        }
    }
}
