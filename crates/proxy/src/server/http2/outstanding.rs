//! Bytes of responses that wait for an HTTP/2 client, and detection of clients that do not read them.
//!
//! A client controls its flow-control windows. At 0 a window holds back a response, and with it the upstream's
//! connection, while the socket itself shows no error. So each response counts its bytes that have not been written, and
//! the connection looks at the counts in regular intervals.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::{Context, Waker};
use std::time::Duration;

use bytes::{Buf, Bytes};
use slab::Slab;
use tokio::time::sleep;

/// Number of checks in `server.write-timeout`.
const CHECKS: u32 = 4;

/// Bytes of one response that wait for the client.
#[derive(Debug, Default)]
pub(super) struct Outstanding {
    bytes: Cell<usize>,
    /// Changes with every write.
    writes: Cell<u64>,
    waker: RefCell<Option<Waker>>,
    /// State of `writes` at the latest check, and the number of checks since it changed.
    seen: Cell<(u64, u32)>,
    is_stalled: Cell<bool>,
}

/// Part of a response body in the connection's send buffer. It counts as outstanding until it is written or dropped.
#[derive(Debug)]
pub(super) struct ResponsePart {
    bytes: Bytes,
    outstanding: Option<Rc<Outstanding>>,
}

/// Responses of one connection that are being sent.
#[derive(Debug, Default)]
pub(super) struct Responses(RefCell<Slab<Rc<Outstanding>>>);

/// Watched response; unregistered when dropped.
#[derive(Debug)]
pub(super) struct WatchedResponse {
    responses: Rc<Responses>,
    slot: usize,
    outstanding: Rc<Outstanding>,
}

impl Outstanding {
    /// Returns the number of bytes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes.get()
    }

    /// Returns true if the client has read nothing for the timeout, although bytes are waiting.
    pub(super) fn is_stalled(&self) -> bool {
        self.is_stalled.get()
    }

    /// Wakes the current task when bytes have been written, or the client is found to have stalled.
    pub(super) fn watch(&self, cx: &Context<'_>) {
        let mut waker = self.waker.borrow_mut();
        if waker.as_ref().is_none_or(|waker| !waker.will_wake(cx.waker())) {
            *waker = Some(cx.waker().clone());
        }
    }

    fn written(&self, length: usize) {
        self.bytes.set(self.bytes.get().saturating_sub(length));
        self.writes.set(self.writes.get().wrapping_add(1));
        self.wake();
    }

    fn wake(&self) {
        if let Some(waker) = self.waker.borrow_mut().take() {
            waker.wake();
        }
    }

    /// Notes one check. Marks the response as stalled if nothing was written in the latest [`CHECKS`].
    fn check(&self) {
        let (writes, checks) = self.seen.get();
        if self.bytes.get() == 0 || writes != self.writes.get() {
            self.seen.set((self.writes.get(), 0));
        } else if checks + 1 < CHECKS {
            self.seen.set((writes, checks + 1));
        } else {
            self.is_stalled.set(true);
            self.wake();
        }
    }
}

impl ResponsePart {
    /// Counts `bytes` as outstanding.
    pub(super) fn new(bytes: Bytes, outstanding: &Rc<Outstanding>) -> Self {
        outstanding.bytes.set(outstanding.bytes.get() + bytes.len());
        Self { bytes, outstanding: Some(Rc::clone(outstanding)) }
    }

    /// Creates the empty part that ends a body.
    pub(super) fn end() -> Self {
        Self { bytes: Bytes::new(), outstanding: None }
    }
}

impl Buf for ResponsePart {
    fn remaining(&self) -> usize {
        self.bytes.len()
    }

    fn chunk(&self) -> &[u8] {
        &self.bytes
    }

    fn advance(&mut self, count: usize) {
        self.bytes.advance(count);
        if let Some(outstanding) = &self.outstanding {
            outstanding.written(count);
        }
    }
}

impl Drop for ResponsePart {
    fn drop(&mut self) {
        if let Some(outstanding) = &self.outstanding
            && !self.bytes.is_empty()
        {
            outstanding.written(self.bytes.len());
        }
    }
}

impl Responses {
    /// Watches a new response.
    #[must_use]
    pub(super) fn watch(self: &Rc<Self>) -> WatchedResponse {
        let outstanding = Rc::<Outstanding>::default();
        let slot = self.0.borrow_mut().insert(Rc::clone(&outstanding));
        WatchedResponse { responses: Rc::clone(self), slot, outstanding }
    }

    /// Looks for responses that the client does not read for `timeout`, with a delay of at most a quarter of it. Does not
    /// return.
    pub(super) async fn check_all(&self, timeout: Duration) {
        loop {
            sleep(timeout / CHECKS).await;
            self.0.borrow().iter().for_each(|(_, response)| response.check());
        }
    }
}

impl std::ops::Deref for WatchedResponse {
    type Target = Rc<Outstanding>;

    fn deref(&self) -> &Rc<Outstanding> {
        &self.outstanding
    }
}

impl Drop for WatchedResponse {
    fn drop(&mut self) {
        self.responses.0.borrow_mut().try_remove(self.slot);
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::timeout;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_response_stalls_when_its_bytes_wait_and_no_other_does() {
        let responses = Rc::<Responses>::default();
        let (idle, waiting, read) = (responses.watch(), responses.watch(), responses.watch());
        let _unread = ResponsePart::new(Bytes::from_static(b"unread"), &waiting);
        let mut part = ResponsePart::new(Bytes::from_static(b"0123456789"), &read);
        for _ in 0..9 {
            let _ = timeout(Duration::from_millis(500), responses.check_all(Duration::from_secs(1))).await;
            part.advance(1);
        }
        assert_eq!((idle.is_stalled(), waiting.is_stalled(), read.is_stalled()), (false, true, false));
        assert_eq!((idle.bytes(), waiting.bytes(), read.bytes()), (0, 6, 1));
        drop(part);
        assert_eq!(read.bytes(), 0);
    }

    #[test]
    fn the_slot_of_a_finished_response_is_reused() {
        let responses = Rc::<Responses>::default();
        let first = responses.watch().slot;
        assert_eq!(responses.watch().slot, first);
    }
}
