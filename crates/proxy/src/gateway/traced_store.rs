//! Store and plan source whose calls are spans of sampled requests.

use std::sync::Arc;

use tollgate_limiter::plan::{PlanLookup, PlanSource};
use tollgate_limiter::store::{Check, Decision, Store};

use crate::instrumentation::traces::request::{RequestTrace, current, is_current_sampled};

/// Store or plan source of one limiter, with the names that its span has.
pub(super) struct Traced<S> {
    inner: S,
    route: Arc<str>,
    /// Scope of the limiter.
    scope: Arc<str>,
}

impl<S> Traced<S> {
    /// Wraps the store or plan source of the limiter `scope`.
    pub(super) fn new(inner: S, route: &Arc<str>, scope: Arc<str>) -> Arc<Self> {
        Arc::new(Self { inner, route: Arc::clone(route), scope })
    }

    /// Starts or continues the span of the limiter.
    fn started(&self, trace: &RequestTrace) {
        trace.limiter_started(&self.route, &self.scope);
    }
}

impl Traced<Arc<dyn Store>> {
    // A call of its own, so that other requests need no room for it on the stack.
    #[cold]
    #[inline(never)]
    fn traced_decision(&self, enforced: &[Check<'_>], observed: &[Check<'_>]) -> Decision {
        let Some(trace) = current() else { return self.inner.decide(enforced, observed) };
        self.started(&trace);
        self.inner.decide(enforced, observed).map(move |verdict| {
            trace.limiter_decided();
            verdict
        })
    }
}

impl Store for Traced<Arc<dyn Store>> {
    fn decide(&self, enforced: &[Check<'_>], observed: &[Check<'_>]) -> Decision {
        match is_current_sampled() {
            true => self.traced_decision(enforced, observed),
            false => self.inner.decide(enforced, observed),
        }
    }

    fn settle(&self, check: Check<'_>, more: i64, counted_at_us: u64) {
        self.inner.settle(check, more, counted_at_us);
    }
}

impl PlanSource for Traced<Arc<dyn PlanSource>> {
    fn plan(&self, id: &[u8]) -> PlanLookup {
        let Some(trace) = current() else { return self.inner.plan(id) };
        match self.inner.plan(id) {
            PlanLookup::Ready(plan) => PlanLookup::Ready(plan),
            PlanLookup::Pending(pending) => {
                self.started(&trace);
                PlanLookup::Pending(Box::pin(async move {
                    let plan = pending.await;
                    trace.limiter_decided();
                    plan
                }))
            }
        }
    }
}
