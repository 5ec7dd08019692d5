//! Options that all calls of a store share.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use crate::rule::LeakyBucket;
use crate::store::memory::Clock;
use crate::store::redis::turns::ReplyDelay;

/// Options that all calls of a store share.
#[derive(Clone, Default)]
pub(crate) struct CallOptions {
    /// Text before the name of each key, the same for all stores of a client.
    pub(crate) prefix: Arc<str>,
    /// Sends a hash of each key id, since ids are secrets.
    pub(crate) hash_ids: bool,
    /// Clock to decide by; `None`: Redis' own.
    pub(crate) clock: Option<Arc<dyn Clock>>,
    /// Lateness of the client's replies.
    pub(crate) reply_delay: Arc<ReplyDelay>,
}

impl CallOptions {
    /// Returns the time of decisions as far as this process knows: the configured clock's, or that of `otherwise`.
    pub(crate) fn now_us(&self, otherwise: &impl Clock) -> u64 {
        self.clock.as_ref().map_or_else(|| otherwise.now_us(), |clock| clock.now_us())
    }

    /// Time that the reply takes, for a turn under `rule`; 0 on a clock of the caller's.
    pub(super) fn lead_us(&self, rule: &LeakyBucket) -> u64 {
        if self.clock.is_some() { 0 } else { self.reply_delay.lead_us(rule) }
    }
}

impl Hash for CallOptions {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.hash_ids.hash(state);
        self.clock.as_ref().map(|clock| Arc::as_ptr(clock).cast::<()>()).hash(state);
    }
}
