//! Random trace of a few rules and keys.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Instant;

use tollgate_limiter::key::BucketKey;
use tollgate_limiter::rule::Rule;
use tollgate_limiter::store::redis::RedisClient;
use tollgate_limiter::store::{Check, MAX_CHECKS};
use tollgate_limiter::verdict::{Outcome, Verdict};

use super::KINDS;
use super::definition::{Kind, Model, Trial, micros, nearest, per_rule};
use super::rng::Rng;
use super::stores::{Expiry, Keeper, Stores};

const SECOND: u64 = 1_000_000;
const START: u64 = 1_763_700_000 * SECOND;

/// Key ids.
pub(super) const IDS: [&[u8]; 3] = [b"10.0.0.1", b"}\0\xff {", b""];

/// Rule with the model of each key id.
pub(super) struct Slot {
    pub(super) kind: Kind,
    pub(super) scope: String,
    pub(super) rule: Rule,
    /// Rule of another gateway, with the same keys.
    pub(super) other: Rule,
    pub(super) keys: [Box<dyn Model>; IDS.len()],
}

/// Step of a trace.
#[derive(Clone, Debug)]
#[expect(dead_code, reason = "printed when a trace fails")]
pub(super) enum Step {
    At(u64),
    Rule {
        slot: usize,
        rule: Rule,
    },
    Decide(Vec<Part>),
    /// Enforced and observed checks in one step.
    Stage([Vec<Part>; 2]),
    Reset(usize),
    /// Another process takes the place of that with the memory store.
    Restart,
    Settle {
        slot: usize,
        id: usize,
        more: i64,
        taken_at: u64,
    },
    Grant {
        slot: usize,
        id: usize,
        amount: Amount,
    },
}

/// Operation of an operator on a quota.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Amount {
    /// Adds tokens, or removes them.
    Add(i64),
    /// Leaves exactly so many tokens.
    Leave(u64),
}

/// Rule and key of one check.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    pub(super) slot: usize,
    pub(super) id: usize,
    pub(super) cost: u64,
}

/// Admitted check, for a later correction.
pub(super) struct Grant {
    pub(super) part: Part,
    /// Rule of the decision.
    pub(super) rule: Rule,
    pub(super) taken_at: u64,
}

pub(crate) struct Trace<'e> {
    pub(super) rng: Rng,
    /// Chooses the observed checks. Of its own, so that traces without them stay the same.
    observe: Rng,
    /// Chooses the decisions before which the process of the memory store is replaced by another one. Of its own likewise.
    restarts: Rng,
    pub(super) stores: Stores,
    pub(super) slots: Vec<Slot>,
    pub(super) steps: Vec<Step>,
    pub(super) grants: Vec<Grant>,
    /// Times of decisions: see `after_overtaken_decisions`.
    pub(super) visits: Vec<u64>,
    /// Times from the last verdicts: retries and resets.
    pub(super) promised: Vec<u64>,
    /// Drops expired keys as early as possible.
    pub(super) expiry: Option<&'e mut Expiry>,
    /// Keeps keys beyond their expiry.
    keeper: Option<&'e mut Keeper>,
}

impl<'e> Trace<'e> {
    /// `run` separates the keys of repeated runs of one trace.
    pub(crate) fn new(seed: u64, run: u32, client: &Arc<RedisClient>, expiry: Option<&'e mut Expiry>) -> Self {
        let (mut rng, observe, restarts) = (Rng::new(seed), Rng::new(!seed), Rng::new(seed ^ 0x7265_7374));
        let count = if rng.chance(1, 3) { 1 } else { rng.within(2, 4) } as usize;
        let in_list = count > 1 || rng.chance(1, 4);
        let slot = |at: usize, rng: &mut Rng| {
            let kind = rng.pick(KINDS);
            let scope = match rng.below(8) {
                _ if !in_list => format!("t{seed}.{run}"),
                0 => format!("#t{seed}.{run}-shared{at}"),
                1 => format!("t{seed}.{run}.{at}"),
                2..5 if at == 0 => format!("t{seed}.{run}"),
                _ => format!("t{seed}.{run}#rule_{at}"),
            };
            let rule = (kind.rule)(rng);
            let other = (kind.rule)(rng);
            Slot { kind, scope, rule, other, keys: [(); IDS.len()].map(|()| (kind.key)()) }
        };
        let slots = (0..count.min(MAX_CHECKS)).map(|at| slot(at, &mut rng)).collect();
        let stores = Stores::new(client);
        stores.clock.set(START + rng.below(100_000 * SECOND));
        let (grants, visits, promised) = Default::default();
        Self {
            rng,
            observe,
            restarts,
            stores,
            slots,
            steps: Vec::new(),
            grants,
            visits,
            promised,
            expiry,
            keeper: None,
        }
    }

    /// Lets `keeper` keep the keys, however long the trace takes.
    pub(crate) fn kept_by(mut self, keeper: &'e mut Keeper) -> Self {
        self.keeper = Some(keeper);
        self
    }

    /// Runs the trace. Returns the number of decisions, or the failure with the steps before it.
    pub(crate) async fn run(mut self) -> Result<u64, String> {
        let first = self.slots.iter().enumerate().map(|(slot, s)| Step::Rule { slot, rule: s.rule.clone() });
        self.steps = std::iter::once(Step::At(self.stores.now())).chain(first).collect();
        let mut decisions = 0;
        for _ in 0..self.rng.within(4, 16) {
            if let Err(problem) = self.step(&mut decisions).await {
                return Err(self.report(&problem));
            }
        }
        Ok(decisions)
    }

    async fn step(&mut self, decisions: &mut u64) -> Result<(), String> {
        let before = Instant::now();
        if self.rng.chance(7, 10) {
            self.pass_time();
        }
        if self.rng.chance(1, 3) {
            self.change_gateway();
        }
        match self.rng.below(20) {
            0 => self.change_rule(),
            1 | 2 => self.settle().await?,
            3 if self.rng.chance(1, 4) => self.reset().await?,
            4 | 5 if self.slots.iter().any(|slot| matches!(slot.rule, Rule::Quota(_))) => self.grant().await?,
            _ => {
                *decisions += 1;
                self.decide().await?;
            }
        }
        if let Some(expiry) = &mut self.expiry {
            expiry.note(self.stores.now(), before);
        }
        if let Some(keeper) = &mut self.keeper {
            keeper.keep(before).await;
        }
        Ok(())
    }

    async fn decide(&mut self) -> Result<(), String> {
        if self.restarts.chance(1, 5) {
            self.steps.push(Step::Restart);
            self.stores.restart();
        }
        let mut parts = self.parts();
        self.visits.push(self.stores.now());
        self.promised.clear();
        if parts.len() == 1 || self.observe.chance(1, 2) {
            self.steps.push(Step::Decide(parts.clone()));
            let verdict = self.stores.decide(&self.checks(&parts)).await?;
            return self.judge(&parts, &verdict);
        }
        let observed = parts.split_off(self.observe.within(1, parts.len() as u64 - 1) as usize);
        self.steps.push(Step::Stage([parts.clone(), observed.clone()]));
        let verdict = self.stores.decide_staged(&self.checks(&parts), &self.checks(&observed)).await?;
        self.judge(&parts, &verdict)?;
        let allowed = verdict.is_allowed();
        match verdict.observed {
            Some(of_observed) if allowed => self.judge(&observed, &of_observed),
            None if !allowed => Ok(()),
            other => Err(format!("observed after allowed={allowed}: {other:?}")),
        }
    }

    fn checks(&self, parts: &[Part]) -> Vec<Check<'_>> {
        parts.iter().map(|part| self.slots[part.slot].check(part)).collect()
    }

    /// Compares a verdict with the models and updates them.
    fn judge(&mut self, parts: &[Part], verdict: &Verdict) -> Result<(), String> {
        let now = self.stores.now();
        let trials: Vec<Trial> = parts.iter().map(|part| self.slots[part.slot].trial(part, now)).collect();
        let admitted = trials.iter().all(|trial| trial.fits);
        let answers = per_rule(verdict);
        if answers.len() != parts.len() || verdict.is_allowed() != admitted {
            return Err(format!("should be admitted: {admitted}, but {verdict:?}"));
        }
        for (at, ((part, trial), verdict)) in parts.iter().zip(&trials).zip(&answers).enumerate() {
            let problem = trial.check(&self.slots[part.slot].rule, now, part.cost, admitted, verdict);
            problem.map_err(|problem| format!("rule {at} of the decision: {problem}\n{verdict:?}"))?;
        }
        let of = |part: &Part| self.slots[part.slot].rule.capacity();
        let nearest = nearest(&answers.iter().copied().zip(parts.iter().map(of)).collect::<Vec<_>>());
        let speaks = answers[nearest];
        let delay = answers.iter().map(|verdict| verdict.delay).filter(|_| admitted).max().unwrap_or_default();
        let said = (verdict.rule, verdict.outcome, verdict.remaining, verdict.reset_after, verdict.delay);
        if said != (nearest, speaks.outcome, Some(speaks.remaining), speaks.reset_after, delay) {
            return Err(format!("rule {nearest} is the nearest, not {said:?}"));
        }
        for (verdict, (part, trial)) in answers.iter().zip(parts.iter().zip(trials)) {
            self.promised.push(now + micros(verdict.reset_after));
            if let Outcome::Denied { retry_after } = verdict.outcome {
                self.promised.push(now + micros(retry_after));
            }
            if admitted && part.cost > 0 {
                let rule = self.slots[part.slot].rule.clone();
                self.grants.push(Grant { part: *part, rule, taken_at: verdict.counted_at_us });
            }
            if let Some(kept) = trial.kept(admitted) {
                self.slots[part.slot].keys[part.id] = kept;
            }
        }
        Ok(())
    }

    fn report(&self, problem: &str) -> String {
        let mut report = String::new();
        for (at, slot) in self.slots.iter().enumerate() {
            let _ = writeln!(report, "slot {at}: {} under {:?}", slot.kind.name, slot.scope);
        }
        for step in &self.steps {
            let _ = writeln!(report, "  {step:?}");
        }
        report + problem
    }
}

impl Slot {
    fn check(&self, part: &Part) -> Check<'_> {
        Check { key: BucketKey { scope: &self.scope, id: IDS[part.id] }, rule: &self.rule, cost: part.cost }
    }

    fn trial(&self, part: &Part, now: u64) -> Trial {
        Trial::new(&*self.keys[part.id], &self.rule, now, part.cost)
    }
}
