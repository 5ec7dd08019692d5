//! Sources of plan names.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

/// Maps key ids to plan names.
pub trait PlanSource: Send + Sync {
    /// Returns the plan of the key id `id`, or none if it cannot be read before the source's deadline.
    fn plan(&self, id: &[u8]) -> PlanLookup;
}

/// Result of a plan lookup.
pub enum PlanLookup {
    /// The plan's name, if the key has one.
    Ready(Option<Arc<str>>),
    /// A lookup in progress; it resolves within the source's deadline.
    Pending(Pin<Box<dyn Future<Output = Option<Arc<str>>> + Send>>),
}

impl std::fmt::Debug for PlanLookup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Ready(plan) => f.debug_tuple("Ready").field(plan).finish(),
            Self::Pending(_) => f.write_str("Pending"),
        }
    }
}
