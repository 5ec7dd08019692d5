//! The task that renews the leases of all requests under way.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::sleep;

use super::Shared;
use super::call::{self, Operation};
use crate::concurrency::leases::Step;
use crate::concurrency::{Owner, Renewal};
use crate::store::redis::{HashSlot, Operation as Purpose};

/// Leases in one write. Their answers must come within the deadline of a single decision.
const AT_ONCE: usize = 512;

/// The pause after a renewal that failed, unless the next one comes sooner anyway: Redis is back within a second of its
/// return.
const TRY_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// The leases that are to be renewed.
#[derive(Default)]
pub(super) struct Registry(Mutex<Live>);

#[derive(Default)]
struct Live {
    leases: HashMap<Owner, Entry>,
    /// Whether a task is there that renews them.
    is_watched: bool,
}

struct Entry {
    name: Arc<[u8]>,
    /// It lost its slot to others.
    overruns: bool,
}

/// A lease as the task found it.
type Due = (Owner, Arc<[u8]>);

impl Registry {
    /// The request is over: its lease is renewed no more.
    pub(super) fn end(&self, owner: Owner) {
        self.0.lock().leases.remove(&owner);
    }

    /// All leases; `None` ends the task, and the next lease begins another.
    fn due(&self) -> Option<Vec<Due>> {
        let mut live = self.0.lock();
        live.is_watched = !live.leases.is_empty();
        live.is_watched.then(|| live.leases.iter().map(|(owner, entry)| (*owner, Arc::clone(&entry.name))).collect())
    }

    fn holds(&self, owner: Owner) -> bool {
        self.0.lock().leases.contains_key(&owner)
    }

    /// Notes whether `owner` has a slot; returns whether it is news that it has none.
    fn overruns(&self, owner: Owner, overruns: bool) -> bool {
        let mut live = self.0.lock();
        live.leases.get_mut(&owner).is_some_and(|entry| !std::mem::replace(&mut entry.overruns, overruns) && overruns)
    }
}

/// Renews the lease of `owner` from now on.
pub(super) fn begin(shared: &Arc<Shared>, owner: Owner, name: &Arc<[u8]>) {
    let mut live = shared.registry.0.lock();
    live.leases.insert(owner, Entry { name: Arc::clone(name), overruns: false });
    if !live.is_watched
        && let Ok(runtime) = tokio::runtime::Handle::try_current()
    {
        live.is_watched = true;
        runtime.spawn(run(Arc::clone(shared)));
    }
}

async fn run(shared: Arc<Shared>) {
    let mut pause = shared.rule.renew_every();
    loop {
        sleep(pause).await;
        let Some(due) = shared.registry.due() else { return };
        pause = shared.rule.renew_every();
        for leases in due.chunks(AT_ONCE) {
            let failed = shared.renew(leases).await;
            if failed > 0 {
                shared.stats.renewed(Renewal::Failed, failed);
                pause = pause.min(TRY_AGAIN_AFTER);
            }
            // A request that ended meanwhile sent its release perhaps over another connection, and before the renewal.
            for (owner, name) in leases.iter().filter(|(owner, _)| !shared.registry.holds(*owner)) {
                shared.release(name, *owner);
            }
        }
    }
}

impl Shared {
    /// Renews `leases` in one write to each server; returns for how many Redis did not.
    async fn renew(&self, leases: &[Due]) -> usize {
        let renewal =
            |(owner, name): &Due| (HashSlot::of(name), call::command(Operation::Renew, name, *owner, &self.rule));
        let renewals: Vec<_> = leases.iter().map(renewal).collect();
        let mut failed = 0;
        for (&(owner, _), answer) in
            leases.iter().zip(self.client.run_all(Purpose::Lease, &call::SCRIPT, &renewals).await)
        {
            let Some(reply) = answer.ok().as_ref().and_then(call::reply) else {
                failed += 1;
                continue;
            };
            let outcome = match reply.step {
                Step::Done => Renewal::Renewed,
                Step::Retaken => Renewal::Retaken,
                Step::Refused => Renewal::Overrun,
            };
            self.stats.renewed(outcome, 1);
            if self.registry.overruns(owner, outcome == Renewal::Overrun) {
                self.stats.overran();
            }
        }
        failed
    }
}
