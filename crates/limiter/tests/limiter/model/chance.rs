//! Random steps of a trace: times, rules and costs.

use tollgate_limiter::rule::Rule;

use super::trace::{IDS, Part, Step, Trace};

const SECOND: u64 = 1_000_000;

impl Trace<'_> {
    pub(super) fn pass_time(&mut self) {
        let now = self.stores.now();
        let until = if self.rng.chance(1, 15) {
            let Some(earlier) = self.set_back(now) else { return };
            // The queue moved with the clock, but the recorded turns did not.
            self.grants.retain(|grant| !matches!(self.slots[grant.part.slot].rule, Rule::LeakyBucket(_)));
            earlier
        } else {
            let later = self.later(now);
            self.after_overtaken_decisions(later)
        };
        self.steps.push(Step::At(until));
        if let Some(expiry) = &mut self.expiry {
            // Expires before the clock is set back as well.
            expiry.expire(until.max(now));
            self.stores.memory.sweep();
        }
        self.stores.clock.set(until);
        if self.expiry.is_some() {
            self.stores.memory.sweep();
        }
    }

    fn later(&mut self, now: u64) -> u64 {
        let rng = &mut self.rng;
        let promised = self.promised.iter().copied().filter(|&at| at > now).collect::<Vec<_>>();
        match rng.below(8) {
            0 => now + rng.below(3),
            1 => now + rng.below(1_000),
            2 => now + rng.below(2 * SECOND),
            3 => now + rng.below(100 * SECOND),
            // Longer than any expiry.
            4 => now + rng.below(3 * 86_400 * SECOND),
            _ if promised.is_empty() => now + rng.below(SECOND),
            _ => rng.pick(&promised) + rng.below(3) - 1,
        }
    }

    /// Returns `at`, or a later time of a decision less than a second after it. The memory store treats such a small step
    /// back as the later time.
    fn after_overtaken_decisions(&self, mut at: u64) -> u64 {
        while let Some(overtaken) = self.visits.iter().find(|&&visit| at < visit && visit - at <= SECOND) {
            at = *overtaken;
        }
        at
    }

    /// Returns a time more than a second earlier, at which no expired state would count again. The stores do not define
    /// whether such a state was dropped meanwhile.
    fn set_back(&mut self, now: u64) -> Option<u64> {
        let by = self.rng.pick(&[0, SECOND, 100 * SECOND, 86_400 * SECOND]);
        let mut at = now - SECOND - 1 - self.rng.below(by + 1);
        while let Some(overtaken) = self.visits.iter().find(|&&visit| at < visit && visit - at <= SECOND) {
            at = overtaken - SECOND - 1;
        }
        let rested = self.slots.iter().flat_map(|slot| slot.keys.iter().map(|key| key.rests_at(&slot.rule)));
        let rested = rested.filter(|&rests_at| rests_at <= now).max().unwrap_or(0);
        (at >= rested).then_some(at)
    }

    pub(super) fn change_rule(&mut self) {
        let slot = self.rng.below(self.slots.len() as u64) as usize;
        let rule = (self.slots[slot].kind.rule)(&mut self.rng);
        self.slots[slot].other = (self.slots[slot].kind.rule)(&mut self.rng);
        self.set_rule(slot, rule);
    }

    /// Lets the other gateway, or a request with the other plan, come next under some of the rules.
    pub(super) fn change_gateway(&mut self) {
        let first = self.rng.below(self.slots.len() as u64) as usize;
        for slot in 0..self.slots.len() {
            if slot == first || self.rng.chance(1, 2) {
                let rule = self.slots[slot].other.clone();
                self.slots[slot].other = self.slots[slot].rule.clone();
                self.set_rule(slot, rule);
            }
        }
    }

    fn set_rule(&mut self, slot: usize, rule: Rule) {
        self.steps.push(Step::Rule { slot, rule: rule.clone() });
        self.slots[slot].rule = rule;
    }

    pub(super) fn parts(&mut self) -> Vec<Part> {
        let rng = &mut self.rng;
        let (id, all, alike) = (rng.below(IDS.len() as u64) as usize, rng.chance(4, 5), rng.chance(2, 3));
        let cost = rng.pick(&[0, 1, 1, 1, 2, 3]);
        let mut parts: Vec<Part> = (0..self.slots.len()).map(|slot| Part { slot, id, cost }).collect();
        if !all {
            let chosen = rng.below(self.slots.len() as u64) as usize;
            parts.retain(|part| part.slot == chosen || rng.chance(1, 2));
            let first = chosen % parts.len();
            parts.rotate_left(first);
        }
        for part in parts.iter_mut().filter(|_| !alike) {
            let capacity = self.slots[part.slot].rule.capacity();
            part.id = rng.below(IDS.len() as u64) as usize;
            part.cost = match rng.below(8) {
                0 => capacity,
                1 => capacity + 1,
                2 => rng.pick(&[u64::MAX, 1 << 53]),
                3 => capacity / 2,
                _ => rng.below(5),
            };
        }
        parts
    }
}
