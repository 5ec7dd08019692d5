//! Limits of the reads from an HTTP/1.1 upstream: of the bytes that arrive without progress of the response, and of each
//! read.
//!
//! hyper skips any number of interim responses (1xx) before a response head, and of zeros before a chunk size. Without a
//! limit, an upstream that sends nothing else would keep a worker busy. For HTTP/2, [`watch`](super::watch) counts
//! the interim responses themselves, since many requests share one stream of bytes there.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll};

use thiserror::Error;
use tokio::io::{AsyncRead, AsyncReadExt, ReadBuf};

use crate::http::read_ahead::ReadAhead;
use crate::upstream::interim::InterimRelay;
use crate::upstream::pool::interim_heads::InterimHeads;
use crate::upstream::pool::pool_settings::PoolSettings;
use crate::upstream::pool::read_hook::{HookedIo, ReadHook, read_bytes};

/// Maximum bytes of interim responses before a response head. It is more than hyper reads ahead, so that the start of a
/// body never counts against it.
const INTERIM_BYTES: usize = 1024 * 1024;

/// Maximum bytes between two parts of a response body. It is more than hyper reads ahead.
const BODY_BYTES: usize = 2 * 1024 * 1024;

/// Limits of the reads of one connection.
#[derive(Clone, Debug)]
pub(super) struct HeadLimit {
    /// Number of bytes that may still arrive before the expected response head, or before the next part of the body;
    /// [`UNLIMITED`] without a limit.
    left: Arc<AtomicUsize>,
    /// Number of bytes that may arrive before a response head.
    max: usize,
    ahead: ReadAhead,
    interim: Arc<InterimHeads>,
}

/// Value of `left` in a tunnel, and before the first request.
const UNLIMITED: usize = usize::MAX;

#[derive(Debug, Error)]
#[error("too many interim responses, or too much framing")]
struct NoProgress;

impl HeadLimit {
    /// Returns when and how much is read.
    pub(super) fn read_ahead(&self) -> &ReadAhead {
        &self.ahead
    }

    /// Applies the limit: a response head is expected. Interim ones before it go to `relay`.
    pub(super) fn expect_head(&self, relay: Option<InterimRelay>) {
        self.left.store(self.max, Relaxed);
        self.interim.expect(relay);
    }

    /// Notes the response head. If `is_tunnel`, bytes without a limit follow it, otherwise a body.
    pub(super) fn head_received(&self, is_tunnel: bool) {
        self.interim.end();
        if is_tunnel {
            self.left.store(UNLIMITED, Relaxed);
        } else {
            self.expect_body();
        }
    }

    /// Applies the limit of a body: the head, or a part of the body, has arrived.
    pub(super) fn expect_body(&self) {
        self.left.store(BODY_BYTES, Relaxed);
    }
}

/// Wraps a stream of responses, which fails when the [`HeadLimit`] is exceeded. Each head may have the bytes and fields of
/// `settings` at most.
pub(super) fn limit_heads<S>(inner: S, settings: &PoolSettings) -> (HookedIo<S, HeadLimit>, HeadLimit) {
    let limit = HeadLimit {
        left: Arc::new(AtomicUsize::new(UNLIMITED)),
        max: settings.max_head_bytes.saturating_add(INTERIM_BYTES),
        ahead: ReadAhead::default(),
        interim: Arc::new(InterimHeads::new(settings.max_head_fields)),
    };
    (HookedIo::new(inner, limit.clone()), limit)
}

impl ReadHook for HeadLimit {
    fn poll_read<S: AsyncRead>(
        &mut self,
        inner: Pin<&mut S>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let left = self.left.load(Relaxed);
        if left == 0 {
            return Poll::Ready(Err(io::Error::other(NoProgress)));
        }
        if self.ahead.is_held(cx) {
            return Poll::Pending;
        }
        let (read, bytes) = read_bytes(Pin::new(&mut inner.take(self.ahead.limit() as u64)), cx, buf);
        let length = bytes.len();
        if length > 0 {
            self.interim.read(bytes);
            self.ahead.read(length);
        }
        // Tunnels are not counted.
        if left != UNLIMITED {
            self.left.store(left.saturating_sub(length), Relaxed);
        }
        read
    }

    fn is_tunnel(&self) -> bool {
        self.left.load(Relaxed) == UNLIMITED
    }
}
