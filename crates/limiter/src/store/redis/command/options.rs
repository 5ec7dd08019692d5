//! Options that all calls of a store share.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use crate::store::memory::Clock;

/// Options that all calls of a store share.
#[derive(Clone, Default)]
pub(crate) struct CallOptions {
    /// Sends a hash of each key id, since ids are secrets.
    pub(crate) hash_ids: bool,
    /// Clock to decide by; `None`: Redis' own.
    pub(crate) clock: Option<Arc<dyn Clock>>,
}

impl CallOptions {
    /// Returns the time of decisions as far as this process knows: the configured clock's, or that of `otherwise`.
    pub(crate) fn now_us(&self, otherwise: &impl Clock) -> u64 {
        self.clock.as_ref().map_or_else(|| otherwise.now_us(), |clock| clock.now_us())
    }
}

impl Hash for CallOptions {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.hash_ids.hash(state);
        self.clock.as_ref().map(|clock| Arc::as_ptr(clock).cast::<()>()).hash(state);
    }
}
