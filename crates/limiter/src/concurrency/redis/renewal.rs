//! Task that renews the slots of all requests in flight.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::sleep;

use super::SlotClient;
use super::call::{self, SlotOperation};
use crate::concurrency::Renewal;
use crate::concurrency::slots::Owner;
use crate::concurrency::slots::Step;
use crate::store::redis::{HashSlot, Operation};

/// Most slots in one write. The replies must arrive within the deadline of a single decision.
const MAX_SLOTS: usize = 512;

/// Pause after a failed renewal, unless the next one is due sooner. The client reconnects within a second of Redis'
/// return.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// Slots to renew.
#[derive(Default)]
pub(super) struct Registry(Mutex<Live>);

#[derive(Default)]
struct Live {
    slots: HashMap<Owner, Entry>,
    /// True while a task renews them.
    has_task: bool,
}

struct Entry {
    name: Arc<[u8]>,
    /// True if others took the expired slot.
    overruns: bool,
}

/// A slot to renew: its owner, and the Redis key.
type Due = (Owner, Arc<[u8]>);

impl Registry {
    /// Ends the renewal of a slot after its request.
    pub(super) fn end(&self, owner: Owner) {
        self.0.lock().slots.remove(&owner);
    }

    /// All slots. `None` ends the task; the next slot starts another.
    fn due(&self) -> Option<Vec<Due>> {
        let mut live = self.0.lock();
        live.has_task = !live.slots.is_empty();
        live.has_task.then(|| live.slots.iter().map(|(owner, entry)| (*owner, Arc::clone(&entry.name))).collect())
    }

    fn holds(&self, owner: Owner) -> bool {
        self.0.lock().slots.contains_key(&owner)
    }

    /// Records whether `owner` lost its slot. Returns true if it just did.
    fn set_overruns(&self, owner: Owner, overruns: bool) -> bool {
        let mut live = self.0.lock();
        live.slots.get_mut(&owner).is_some_and(|entry| !std::mem::replace(&mut entry.overruns, overruns) && overruns)
    }
}

/// Renews the slot of `owner` from now on.
pub(super) fn start(shared: &Arc<SlotClient>, owner: Owner, name: &Arc<[u8]>) {
    let mut live = shared.registry.0.lock();
    live.slots.insert(owner, Entry { name: Arc::clone(name), overruns: false });
    if !live.has_task
        && let Ok(runtime) = tokio::runtime::Handle::try_current()
    {
        live.has_task = true;
        runtime.spawn(run(Arc::clone(shared)));
    }
}

async fn run(shared: Arc<SlotClient>) {
    let mut pause = shared.rule.renew_every();
    loop {
        sleep(pause).await;
        let Some(due) = shared.registry.due() else { return };
        pause = shared.rule.renew_every();
        for slots in due.chunks(MAX_SLOTS) {
            let failed = shared.renew(slots).await;
            if failed > 0 {
                shared.stats.renewed(Renewal::Failed, failed);
                pause = pause.min(RETRY_PAUSE);
            }
            // A request that ended meanwhile may have sent its release over another connection, ahead of the renewal.
            for (owner, name) in slots.iter().filter(|(owner, _)| !shared.registry.holds(*owner)) {
                shared.release(name, *owner);
            }
        }
    }
}

impl SlotClient {
    /// Renews `slots` in one write to each server. Returns the number of failures.
    async fn renew(&self, slots: &[Due]) -> usize {
        let renewal =
            |(owner, name): &Due| (HashSlot::of(name), call::command(SlotOperation::Renew, name, *owner, &self.rule));
        let renewals: Vec<_> = slots.iter().map(renewal).collect();
        let mut failed = 0;
        for (&(owner, _), result) in
            slots.iter().zip(self.client.run_all(Operation::Slot, &call::SCRIPT, &renewals).await)
        {
            let Some(reply) = result.ok().as_ref().and_then(call::reply) else {
                failed += 1;
                continue;
            };
            let outcome = match reply.step {
                Step::Done => Renewal::Renewed,
                Step::Retaken => Renewal::Retaken,
                Step::Refused => Renewal::Overrun,
            };
            self.stats.renewed(outcome, 1);
            if self.registry.set_overruns(owner, outcome == Renewal::Overrun) {
                self.stats.overran();
            }
        }
        failed
    }
}
