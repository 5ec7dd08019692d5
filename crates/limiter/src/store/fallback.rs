//! Decisions without the store, by `on-store-failure`.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use crate::rule::Rule;
use crate::store::memory::{KeyLocation, MemoryStore};
use crate::store::{Check, OnStoreFailure};
use crate::verdict::{Outcome, Source, Verdict};

/// `retry-after` of a request refused because the store is unreachable. Recovery takes no longer.
pub(crate) const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Prepared decision without the store. It keeps the location of the local state instead of the key.
pub(crate) enum Fallback {
    Local { store: Arc<MemoryStore>, checks: Vec<(KeyLocation, Rule, u64)>, gateways: NonZeroU32 },
    Allow,
    Deny,
}

impl Fallback {
    /// Prepares a decision for `checks`. Each of `gateways` gateways admits its share of a limit.
    pub(crate) fn new(
        on_store_failure: OnStoreFailure,
        local: &Arc<MemoryStore>,
        checks: &[Check<'_>],
        gateways: NonZeroU32,
    ) -> Self {
        match on_store_failure {
            OnStoreFailure::Local => {
                let located = |check: &Check<'_>| (local.locate(check.key), check.rule.clone(), check.cost);
                Self::Local { store: Arc::clone(local), checks: checks.iter().map(located).collect(), gateways }
            }
            OnStoreFailure::Allow => Self::Allow,
            OnStoreFailure::Deny => Self::Deny,
        }
    }

    /// Decides. A request that needs more than this gateway's share is refused for the store's sake, not for the limit's: if
    /// each gateway admitted it, they would exceed the limit together.
    pub(crate) fn decide(self) -> Verdict {
        match self {
            Self::Local { store, mut checks, gateways } => {
                for (_, rule, cost) in checks.iter_mut().filter(|_| gateways > NonZeroU32::MIN) {
                    let suffices = |share: &Rule| *cost <= share.capacity() || *cost > rule.capacity();
                    let Some(share) = rule.share_of(gateways).filter(suffices) else { return unavailable() };
                    *rule = share;
                }
                Verdict { source: Source::Fallback, ..store.decide_located(&checks) }
            }
            Self::Allow => Verdict::uncounted(Outcome::Allowed),
            Self::Deny => unavailable(),
        }
    }
}

fn unavailable() -> Verdict {
    Verdict::uncounted(Outcome::StoreUnavailable { retry_after: RETRY_AFTER })
}

#[cfg(test)]
mod tests;
