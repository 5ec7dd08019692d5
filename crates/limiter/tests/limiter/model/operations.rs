//! Steps of a trace other than decisions: corrections, grants and resets.

use tollgate_limiter::key::BucketKey;
use tollgate_limiter::rule::Rule;
use tollgate_limiter::store::Check;

use super::trace::{Amount, Grant, IDS, Part, Slot, Step, Trace};

impl Trace<'_> {
    pub(super) async fn settle(&mut self) -> Result<(), String> {
        let Some(at) = self.grants.len().checked_sub(1) else { return Ok(()) };
        let Grant { part: Part { slot, id, cost }, rule: decided, taken_at } =
            self.grants.swap_remove(self.rng.below(at as u64 + 1) as usize);
        let less = i64::try_from(cost).unwrap_or(i64::MAX);
        let more: i64 = match self.rng.below(4) {
            0 => self.rng.within(1, 30) as i64,
            // Corrections of a quota or a queue must return exactly the cost.
            1 if !matches!(self.slots[slot].rule, Rule::Quota(_) | Rule::LeakyBucket(_)) => {
                self.rng.pick(&[i64::MAX, i64::MIN])
            }
            1 => -less,
            _ => -(self.rng.below(cost.saturating_add(1)) as i64),
        };
        let step = Step::Settle { slot, id, more, taken_at };
        self.steps.push(step);
        let (now, Slot { scope, rule, keys, .. }) = (self.stores.now(), &mut self.slots[slot]);
        // Windows and turns are those of the rule of the decision. Debts are corrected under any rule, and quotas under both.
        let is_of_decision = match rule {
            Rule::FixedWindow(_) | Rule::LeakyBucket(_) => true,
            Rule::Quota(_) => taken_at % 2 == 0,
            _ => false,
        };
        let rule = if is_of_decision { &decided } else { &*rule };
        self.visits.push(now);
        keys[id].corrected(rule, now, more, taken_at);
        let check = Check { key: BucketKey { scope, id: IDS[id] }, rule, cost };
        self.stores.settle(check, more, taken_at).await
    }

    /// An operator adds tokens to a quota or sets it.
    pub(super) async fn grant(&mut self) -> Result<(), String> {
        let quotas: Vec<usize> =
            (0..self.slots.len()).filter(|at| matches!(self.slots[*at].rule, Rule::Quota(_))).collect();
        let (slot, id) = (self.rng.pick(&quotas), self.rng.below(IDS.len() as u64) as usize);
        let amount = match self.rng.below(4) {
            0 => Amount::Leave(self.rng.pick(&[0, 1, 5, self.slots[slot].rule.capacity()])),
            1 => Amount::Add(-(self.rng.below(8) as i64)),
            _ => Amount::Add(self.rng.below(12) as i64),
        };
        self.steps.push(Step::Grant { slot, id, amount });
        let (now, Slot { scope, rule, keys, .. }) = (self.stores.now(), &mut self.slots[slot]);
        self.visits.push(now);
        keys[id].seen(rule, now);
        keys[id].grant(rule, now, amount);
        let Rule::Quota(quota) = &*rule else { unreachable!("chosen above") };
        let remaining = self.stores.grant(BucketKey { scope, id: IDS[id] }, quota, amount).await?;
        let left = keys[id].left(rule, now);
        if remaining == left { Ok(()) } else { Err(format!("{remaining} remain after a grant, not {left}")) }
    }

    /// An operator resets one key id under all rules.
    pub(super) async fn reset(&mut self) -> Result<(), String> {
        let id = self.rng.below(IDS.len() as u64) as usize;
        self.steps.push(Step::Reset(id));
        self.grants.retain(|grant| grant.part.id != id);
        for slot in &mut self.slots {
            slot.keys[id] = (slot.kind.key)();
            let check = Check { key: BucketKey { scope: &slot.scope, id: IDS[id] }, rule: &slot.rule, cost: 0 };
            self.stores.forget(check).await?;
        }
        Ok(())
    }
}
