//! Sources of plan names.

use std::sync::Arc;

use crate::store::StoreReply;

/// Maps key ids to plan names.
pub trait PlanSource: Send + Sync {
    /// Returns the plan of the key id `id`, or none if it cannot be read before the source's deadline.
    fn plan(&self, id: &[u8]) -> PlanLookup;
}

/// The plan's name, if the key has one.
pub type PlanLookup = StoreReply<Option<Arc<str>>>;
