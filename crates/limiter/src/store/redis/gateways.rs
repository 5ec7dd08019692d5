//! Number of gateways that share a limit.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Number of gateways that share a limit.
#[derive(Clone, Debug)]
pub enum Gateways {
    /// A fixed number.
    Fixed(NonZeroU32),
    /// The latest count from heartbeats.
    Counted(GatewayCount),
}

/// Latest count of gateways; clones share it. 1 until the first count.
#[derive(Clone, Debug, Default)]
pub struct GatewayCount(Arc<AtomicU32>);

// === impl Gateways ===

impl Gateways {
    /// Current number of gateways.
    #[must_use]
    pub fn get(&self) -> NonZeroU32 {
        match self {
            Self::Fixed(count) => *count,
            Self::Counted(count) => count.get(),
        }
    }
}

impl Default for Gateways {
    fn default() -> Self {
        Self::Fixed(NonZeroU32::MIN)
    }
}

impl From<NonZeroU32> for Gateways {
    fn from(count: NonZeroU32) -> Self {
        Self::Fixed(count)
    }
}

// === impl GatewayCount ===

impl GatewayCount {
    /// Latest count; 1 before the first.
    #[must_use]
    pub fn get(&self) -> NonZeroU32 {
        self.counted().unwrap_or(NonZeroU32::MIN)
    }

    /// Latest count; `None` before the first.
    #[must_use]
    pub fn counted(&self) -> Option<NonZeroU32> {
        NonZeroU32::new(self.0.load(Ordering::Relaxed))
    }

    /// Resets the count, when heartbeats are switched off.
    pub fn forget(&self) {
        self.set(0);
    }

    pub(crate) fn set(&self, gateways: u32) {
        self.0.store(gateways, Ordering::Relaxed);
    }
}
