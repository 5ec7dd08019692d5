//! Random traces through an algorithm in Rust, its script in a real Redis, and a reference model.

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use redis::Connection;
use tollgate_limiter::algorithm::{Algorithm, Moment};
use tollgate_limiter::verdict::{Outcome, RuleVerdict};

use crate::support::{RedisServer, seconds};

/// Start of the traces: a multiple of every window, near the present.
pub(crate) const START_US: u64 = 1_763_769_600_000_000;

/// Type of rule with a script.
pub(crate) trait Scripted: Algorithm + Clone + std::fmt::Debug {
    const TEXT: &'static str;

    /// Returns the arguments of the script at `now_us`; `counted_at_us` for a correction.
    fn args(&self, now_us: u64, cost: &str, counted_at_us: Option<u64>) -> Vec<String>;

    /// Returns the largest admitted cost.
    fn most(&self) -> u64;
}

/// Request, or correction of an earlier one.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    /// Move of the clock before the step, in microseconds.
    pub(crate) moves_us: i64,
    /// Index of the rule, modulo the number of rules of the trace.
    pub(crate) rule: usize,
    pub(crate) action: Action,
}

#[derive(Clone, Debug)]
pub(crate) enum Action {
    Take(u64),
    /// Correction of tokens for the step that many steps ago.
    Settle(i64, usize),
}

/// Reply of a script: `{allowed, remaining, wait us, reset us, now us}`.
pub(crate) type Reply = (i64, i64, i64, i64, i64);

/// Reference model of an algorithm.
pub(crate) trait Model<A> {
    /// Returns true for an admitted request, and the remaining tokens.
    fn take(&mut self, rule: &A, now_us: u64, cost: u64) -> (bool, u64);
    fn settle(&mut self, rule: &A, now_us: u64, more: i64, counted_at_us: u64);
}

/// Placeholder for traces without a model.
pub(crate) struct NoModel;

impl<A> Model<A> for NoModel {
    fn take(&mut self, _: &A, _: u64, _: u64) -> (bool, u64) {
        unreachable!("called only with a model")
    }
    fn settle(&mut self, _: &A, _: u64, _: i64, _: u64) {}
}

/// Returns steps with costs up to `costs` and gaps of about `window_us`, optionally backwards in time.
pub(crate) fn steps(window_us: u64, costs: u64, backwards: bool) -> impl Strategy<Value = Vec<Step>> {
    let window = window_us as i64;
    let back = if backwards { 1u32 } else { 0 };
    let moves = prop_oneof![
        6 => Just(0i64),
        6 => 0..window / 8 + 2,
        3 => 0..window + 2,
        1 => 0..window * 3,
        1 => (1i64..4).prop_map(move |windows| windows * window),
        back => (0..window * 2).prop_map(|us| -us - 1),
        back => (0..window / 4 + 1).prop_map(|us| -us - 1),
    ];
    let action = prop_oneof![
        8 => (0..=costs).prop_map(Action::Take),
        2 => (-(costs as i64)..=costs as i64, 0usize..12).prop_map(|(more, ago)| Action::Settle(more, ago)),
    ];
    let step = (moves, 0usize..6, action).prop_map(|(moves_us, rule, action)| Step { moves_us, rule, action });
    prop::collection::vec(step, 1..50)
}

/// Runs `TOLLGATE_TRACES` traces of `rules` and `steps`, by default `cases`.
pub(crate) fn run<A: Scripted, M: Model<A>>(
    cases: u32,
    rules: impl Strategy<Value = Vec<A>>,
    steps: impl Strategy<Value = Vec<Step>>,
    model: impl Fn() -> Option<M>,
) {
    let server = RedisServer::start();
    let mut redis = server.connection();
    let script: String = redis::cmd("SCRIPT").arg("LOAD").arg(A::TEXT).query(&mut redis).unwrap();
    let redis = std::cell::RefCell::new(redis);
    let cases = std::env::var("TOLLGATE_TRACES").map_or(cases, |cases| cases.parse().unwrap());
    let config = ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() };
    let traced = TestRunner::new(config).run(&(rules, steps), |(rules, steps)| {
        trace(&mut redis.borrow_mut(), &script, &rules, &steps, model());
        Ok(())
    });
    traced.unwrap();
}

/// Runs one trace. `script` is the digest of the loaded script.
fn trace<A: Scripted, M: Model<A>>(
    redis: &mut Connection,
    script: &str,
    rules: &[A],
    steps: &[Step],
    mut model: Option<M>,
) {
    let mut calls = redis::pipe();
    calls.cmd("FLUSHALL").ignore();
    let (mut state, mut expected, mut times): (Option<A::State>, Vec<_>, Vec<u64>) = (None, Vec::new(), Vec::new());
    let mut now_us = START_US;
    for step in steps {
        now_us = now_us.checked_add_signed(step.moves_us).unwrap();
        let (rule, now) = (&rules[step.rule % rules.len()], Moment::at(now_us));
        let (verdict, change, args) = match step.action {
            Action::Take(cost) => {
                let (verdict, change) = rule.decide(state.as_ref(), now, cost);
                let after = change.is_some().then(|| clone_change(rule, state.as_ref(), now, cost)).flatten();
                check_promises(rule, after.as_ref().or(state.as_ref()), now_us, cost, &verdict);
                if let Some(model) = &mut model {
                    let said = (verdict.outcome == Outcome::Allowed, verdict.remaining);
                    assert_eq!(said, model.take(rule, now_us, cost), "{step:?} at {now_us} differs from the model");
                }
                (Some(verdict), change, rule.args(now_us, &cost.to_string(), None))
            }
            Action::Settle(more, ago) => {
                let counted_at_us = times[times.len().saturating_sub(ago + 1)..].first().copied().unwrap_or(now_us);
                let change = rule.settle(state.as_ref(), now, more, counted_at_us);
                if let Some(model) = &mut model {
                    model.settle(rule, now_us, more, counted_at_us);
                }
                (None, change, rule.args(now_us, &format!("{more:+}"), Some(counted_at_us)))
            }
        };
        times.push(now_us);
        calls.cmd("EVALSHA").arg(script).arg(1).arg("k").arg(&args);
        // The server's clock hardly advances during a trace.
        calls.cmd("PERSIST").arg("k").ignore().cmd("DUMP").arg("k");
        expected.push((verdict, change.is_some(), now_us));
        if let Some(change) = change {
            state = Some(A::apply(state.take(), change));
        }
    }
    let replies: Vec<redis::Value> = calls.query(redis).unwrap();
    let mut before = redis::Value::Nil;
    for (at, ((verdict, writes, now_us), reply)) in expected.into_iter().zip(replies.chunks(2)).enumerate() {
        let [reply, dump] = reply else { panic!("two replies a step") };
        let reply: Reply = redis::from_redis_value_ref(reply).unwrap();
        if let Some(verdict) = verdict {
            assert_eq!(reply, as_reply(&verdict, now_us), "step {at} of {steps:?} under {rules:?}");
        }
        assert!(writes || *dump == before, "step {at} of {steps:?} under {rules:?} wrote unnecessarily");
        before = dump.clone();
    }
}

/// Decides a request again and returns the state after it.
fn clone_change<A: Scripted>(rule: &A, state: Option<&A::State>, now: Moment, cost: u64) -> Option<A::State> {
    rule.decide(state, now, cost).1.map(|change| A::apply(state.cloned(), change))
}

/// Checks that the retry delay is exact to the microsecond, and that the full capacity is available after the reset.
fn check_promises<A: Scripted>(rule: &A, state: Option<&A::State>, now_us: u64, cost: u64, verdict: &RuleVerdict) {
    let at = |us: u128, cost| rule.decide(state, Moment::at(now_us + u64::try_from(us).unwrap()), cost).0;
    if let Outcome::Denied { retry_after } = verdict.outcome {
        let wait_us = retry_after.as_micros();
        assert!(wait_us > 0);
        assert_eq!(at(wait_us, cost).outcome, Outcome::Allowed, "after {wait_us} us");
        assert_ne!(at(wait_us - 1, cost).outcome, Outcome::Allowed, "before {wait_us} us");
    }
    if !verdict.reset_after.is_zero() && rule.most() > 0 {
        let reset_us = verdict.reset_after.as_micros();
        assert_eq!(at(reset_us, 0).remaining, rule.most(), "after {reset_us} us");
        // A log may forget a window that only reads.
        let is_noted = cost > 0;
        assert!(!is_noted || at(reset_us - 1, 0).remaining != rule.most(), "before {reset_us} us");
    }
}

pub(crate) fn as_reply(verdict: &RuleVerdict, now_us: u64) -> Reply {
    let (allowed, wait) = match verdict.outcome {
        Outcome::Allowed => (1, 0),
        Outcome::Denied { retry_after } => (0, retry_after.as_micros() as i64),
        Outcome::NeverAdmitted => (0, -1),
        other => panic!("no algorithm says {other:?}"),
    };
    (allowed, verdict.remaining as i64, wait, verdict.reset_after.as_micros() as i64, now_us as i64)
}

/// Returns the leading arguments of every window script.
pub(crate) fn window_args(limit: u64, window_us: u128, now_us: u64, cost: &str) -> Vec<String> {
    vec![limit.to_string(), window_us.to_string(), seconds(now_us), cost.to_owned()]
}
