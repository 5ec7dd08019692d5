//! State that all connections of a client share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio::sync::futures::Notified;
use tokio::sync::{Notify, watch};
use tokio::time::Duration;

use super::connector::Connector;
use crate::store::memory::{Clock, MonotonicClock};
use crate::store::redis::connection_settings::RedisSettings;
use crate::store::redis::error::{Advice, StoreError};
use crate::store::redis::invalidation::{CHANNEL, Invalidations, REVOKE};
use crate::store::redis::stats::{Operation, RedisStats};
use crate::store::redis::turns::ReplyDelay;

/// Least time between two log lines about decisions without Redis.
const LOG_INTERVAL_US: u64 = 1_000_000;

/// State that all connections of a client share.
pub(crate) struct ConnectionContext {
    pub(crate) connector: Connector,
    pub(crate) stats: Arc<RedisStats>,
    pub(crate) invalidations: Arc<Invalidations>,
    /// Invalidations of leases.
    pub(crate) revocations: Arc<Invalidations>,
    pub(crate) reply_delay: Arc<ReplyDelay>,
    /// Sends calls that wait at the same moment as one.
    pub(crate) batch: bool,
    /// Longest time of a call.
    pub(crate) timeout: Duration,
    /// Text before the name of every key and channel.
    pub(crate) key_prefix: Arc<str>,
    /// Channel of notices about returned tokens.
    pub(crate) channel: String,
    /// Log message for a call that failed.
    failure_message: &'static str,
    pub(crate) advice: Advice,
    changes: watch::Sender<()>,
    slots_outdated: Notify,
    clock: MonotonicClock,
    logged_at_us: AtomicU64,
    logged_no_scripts: AtomicBool,
}

impl ConnectionContext {
    pub(crate) fn new(
        connector: Connector,
        stats: Arc<RedisStats>,
        batch: bool,
        settings: &RedisSettings,
        (failure_message, advice): (&'static str, Advice),
    ) -> Self {
        Self {
            connector,
            stats,
            invalidations: Arc::default(),
            revocations: Arc::default(),
            reply_delay: Arc::default(),
            batch,
            timeout: settings.timeout,
            key_prefix: Arc::clone(&settings.key_prefix),
            channel: format!("{}{CHANNEL}", settings.key_prefix),
            failure_message,
            advice,
            changes: watch::Sender::new(()),
            slots_outdated: Notify::new(),
            clock: MonotonicClock::default(),
            logged_at_us: AtomicU64::new(0),
            logged_no_scripts: AtomicBool::new(false),
        }
    }

    /// Heeds a notice of another gateway.
    pub(crate) fn handle_notice(&self, message: &[u8]) {
        match message.strip_prefix(REVOKE.as_bytes()) {
            Some(key) => self.revocations.invalidate(key),
            None => self.invalidations.invalidate(message),
        }
    }

    /// Notifies waiting calls that a connection was established or lost, or that an attempt failed.
    pub(crate) fn notify_change(&self) {
        self.changes.send_replace(());
    }

    /// Subscribes to [`notify_change`](Self::notify_change).
    pub(crate) fn changes(&self) -> watch::Receiver<()> {
        self.changes.subscribe()
    }

    /// Requests a refresh of the cluster's slots: it is doubtful which node serves which slot.
    pub(crate) fn refresh_slots(&self) {
        self.slots_outdated.notify_one();
    }

    /// Waits for [`refresh_slots`](Self::refresh_slots).
    pub(crate) fn refresh_requested(&self) -> Notified<'_> {
        self.slots_outdated.notified()
    }

    /// Counts a failed call if requests depend on it, and logs it at most once a second. A server without scripts is
    /// logged once, since that does not change. `detail` is the server's message.
    pub(crate) fn record_failure(&self, operation: Operation, node: &str, kind: StoreError, detail: Option<&str>) {
        if !operation.serves_requests() {
            return;
        }
        self.stats.failures.record(kind);
        if kind == StoreError::NoScripts {
            if !self.logged_no_scripts.swap(true, Ordering::Relaxed) {
                let settings = (self.advice)(kind);
                tracing::error!(node, reason = kind.as_str(), error = %kind, settings, "{}", self.failure_message);
            }
            return;
        }
        let (now, last) = (self.clock.now_us(), self.logged_at_us.load(Ordering::Relaxed));
        let due = last == 0 || now.saturating_sub(last) >= LOG_INTERVAL_US;
        if due && self.logged_at_us.compare_exchange(last, now.max(1), Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            let settings = (self.advice)(kind);
            tracing::warn!(node, reason = kind.as_str(), error = %kind, detail, settings, "{}", self.failure_message);
        }
    }
}
