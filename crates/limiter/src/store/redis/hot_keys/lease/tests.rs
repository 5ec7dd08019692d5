#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use proptest::prelude::*;

use super::*;
use crate::algorithm::{Algorithm, Moment};
use crate::rule::{Align, FixedWindow, TokenBucket};
use crate::verdict::Outcome;

const SECOND: u64 = 1_000_000;
const START: u64 = 1_000 * SECOND;

/// Next action of a gateway.
#[derive(Clone, Debug)]
enum Act {
    /// A request arrives. If it calls Redis, the call takes `spare` requests in advance.
    Request { spare: u64 },
    /// The lease ends. Redis should receive the return within `due_us`, and receives it `late_us` later.
    End { due_us: u64, late_us: u64 },
    /// An operator takes all tokens of the key, or returns all. Only `noticed` gateways get a notice.
    Change { empties: bool, noticed: [bool; 3] },
}

/// One step: elapsed time, index of the gateway, latency to Redis, and the action.
type Step = (u64, usize, u64, Act);

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let elapsed = prop_oneof![4 => Just(0u64), 4 => 0..20_000u64, 2 => 0..SECOND, 1 => 0..10 * SECOND];
    let act = prop_oneof![
        12 => prop_oneof![Just(0u64), 0..30u64].prop_map(|spare| Act::Request { spare }),
        1 => (0..50_000u64, prop_oneof![3 => 0..50_000u64, 1 => 0..10 * SECOND])
            .prop_map(|(due_us, late_us)| Act::End { due_us, late_us }),
    ];
    prop::collection::vec((elapsed, 0..3usize, 0..5_000u64, act), 1..120)
}

/// Steps with changes by an operator.
fn changes() -> impl Strategy<Value = Vec<Step>> {
    let change = (any::<bool>(), any::<[bool; 3]>()).prop_map(|(empties, noticed)| Act::Change { empties, noticed });
    let change = (0..20_000u64, Just(0usize), Just(0u64), change);
    (steps(), change, steps(), 0..SECOND).prop_map(|(mut before, change, after, pause)| {
        before.push(change);
        before.extend(after);
        before.push((pause, 0, 0, Act::Request { spare: 0 }));
        before
    })
}

/// A return on its way: its requests, the times of the lease, and when Redis receives it.
type Return = (u64, LeaseTimes, u64);

/// Requests that were admitted, and those since an operator's change.
#[derive(Default)]
struct Admitted {
    times: Vec<u64>,
    /// Time of the change, and whether it took all tokens.
    change: Option<(u64, bool)>,
    since_change: Vec<u64>,
}

/// Runs `steps` against `rule` in the place of Redis. Returns the times of admitted requests, by one clock.
fn admitted<A: Algorithm>(rule: &A, kind: &Rule, cost: u64, lasts_us: u64, steps: &[Step]) -> Admitted {
    let (mut redis, mut leases, mut now) = (None, [const { None::<Lease> }; 3], START);
    let (mut admitted, mut returns, mut revoked_us) = (Admitted::default(), Vec::<Return>::new(), 0);
    let apply = |redis: &mut Option<A::State>, change: Option<A::Change>| {
        if let Some(change) = change {
            *redis = Some(A::apply(redis.take(), change));
        }
    };
    let decide = |redis: &mut Option<A::State>, now, cost| {
        let (rule_verdict, change) = rule.decide(redis.as_ref(), Moment::at(now), cost);
        apply(redis, change);
        rule_verdict
    };
    for (elapsed, gateway, latency_us, act) in steps {
        now += elapsed;
        // As the script does.
        for (left, times, at_us) in returns.extract_if(.., |(_, _, at_us)| *at_us <= now) {
            if at_us <= times.due_us && times.granted_us > revoked_us {
                let more = -i64::try_from(left * cost).unwrap();
                let change = rule.settle(redis.as_ref(), Moment::at(now), more, times.granted_us);
                apply(&mut redis, change);
            }
        }
        let lease = &mut leases[*gateway];
        match act {
            Act::Request { spare } => {
                if lease.as_mut().and_then(|lease| lease.take(now)).is_some() {
                    admitted.record(now);
                    continue;
                }
                let sent = now;
                now += latency_us;
                // The rest of an old lease is never used.
                *lease = None;
                let whole = decide(&mut redis, now, cost * (1 + spare));
                if whole.outcome == Outcome::Allowed {
                    admitted.record(now);
                    *lease = Some(Lease::new(std::iter::once((kind, cost)), &[whole], *spare, sent, lasts_us));
                } else if decide(&mut redis, now, cost).outcome == Outcome::Allowed {
                    admitted.record(now);
                }
                now += latency_us;
            }
            Act::End { due_us, late_us } => {
                let Some(mut lease) = lease.take() else { continue };
                let (left, times) = lease.end(now + due_us);
                returns.push((left, times, now + late_us));
            }
            Act::Change { empties, noticed } => {
                redis = None;
                if *empties {
                    decide(&mut redis, now, kind.capacity());
                }
                revoked_us = now;
                leases.iter_mut().zip(noticed).filter(|(_, noticed)| **noticed).for_each(|(lease, _)| *lease = None);
                admitted.change = Some((now, *empties));
                // Leases that no notice has ended are over by then.
                now += lasts_us;
            }
        }
    }
    admitted
}

impl Admitted {
    fn record(&mut self, now_us: u64) {
        match self.change {
            None => self.times.push(now_us),
            Some(_) => self.since_change.push(now_us),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn gateways_with_leases_admit_no_more_than_the_bucket(
        rate in 1u64..200, secs in 1u64..4, burst in 1u64..60, cost in 1u64..4, lasts_us in 1_000..3 * SECOND, steps in steps()
    ) {
        let bucket = TokenBucket::new(rate, Duration::from_secs(secs), burst).unwrap();
        let times = admitted(&bucket, &Rule::Gcra(bucket.clone()), cost, lasts_us, &steps).times;
        for (first, &from) in times.iter().enumerate() {
            for (count, &until) in (1..).zip(&times[first..]) {
                // In parts of a token that flow in within a µs, so that nothing is rounded.
                let part = secs * SECOND;
                let most = u128::from(burst) * u128::from(part) + u128::from(until - from) * u128::from(rate);
                prop_assert!(u128::from(count * cost) * u128::from(part) <= most, "{count} from {from} until {until}");
            }
        }
    }

    #[test]
    fn gateways_with_leases_admit_no_more_than_the_window(
        limit in 1u64..60, window_us in 10_000..5 * SECOND, cost in 1u64..4, lasts_us in 1_000..3 * SECOND, steps in steps()
    ) {
        let window = FixedWindow::new(limit, Duration::from_micros(window_us), Align::Clock).unwrap();
        let times = admitted(&window, &Rule::FixedWindow(window.clone()), cost, lasts_us, &steps).times;
        for chunk in times.chunk_by(|a, b| a / window_us == b / window_us) {
            prop_assert!(chunk.len() as u64 * cost <= limit, "{chunk:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn leases_from_before_an_operators_change_admit_nothing_once_they_are_over(
        rate in 1u64..200, burst in 1u64..60, cost in 1u64..4, lasts_us in 1_000..SECOND, steps in changes()
    ) {
        let bucket = TokenBucket::per_second(rate, burst).unwrap();
        let admitted = admitted(&bucket, &Rule::Gcra(bucket.clone()), cost, lasts_us, &steps);
        let (changed_us, empties) = admitted.change.unwrap();
        let full = if empties { 0 } else { burst };
        for (count, &until) in (1..).zip(&admitted.since_change) {
            prop_assert!(count * cost * SECOND <= full * SECOND + rate * (until - changed_us), "{count} until {until}");
        }
    }

    #[test]
    fn leases_from_before_an_operators_change_admit_nothing_more_in_the_window(
        limit in 1u64..60, cost in 1u64..4, lasts_us in 1_000..SECOND, steps in changes()
    ) {
        // All steps are in one window.
        let window = FixedWindow::new(limit, Duration::from_secs(1_000_000), Align::Clock).unwrap();
        let admitted = admitted(&window, &Rule::FixedWindow(window.clone()), cost, lasts_us, &steps);
        let (_, empties) = admitted.change.unwrap();
        let full = if empties { 0 } else { limit };
        prop_assert!(admitted.since_change.len() as u64 * cost <= full, "{:?}", admitted.since_change);
    }
}

fn lease(spare: u64) -> Lease {
    let bucket = TokenBucket::per_second(10, 20).unwrap();
    let (rule_verdict, _) = bucket.decide(None, Moment::at(START), 1 + spare);
    Lease::new(std::iter::once((&Rule::Gcra(bucket), 1)), &[rule_verdict], spare, START, SECOND / 2)
}

#[test]
fn spare_requests_are_used_one_by_one_until_the_lease_ends() {
    let mut spent = lease(3);
    let left: Vec<u64> =
        (0..4).map_while(|_| spent.take(START)).map(|rule_verdicts| rule_verdicts[0].remaining).collect();
    assert_eq!(left, [2, 1, 0]);
    let mut kept = lease(10);
    assert!(kept.take(START - 1).is_none() && kept.take(START + SECOND / 2).is_none());
    assert!(kept.take(START + SECOND / 2 - 1).is_some());
}

#[test]
fn tokens_beyond_the_bucket_are_not_used() {
    // Full again 1.1 s later: nine tokens flow in from 200 ms on, less what a tick brings.
    let mut lease = lease(10);
    assert_eq!(lease.available(START + 200_000), 8);
    assert_eq!(lease.available(START + 1_099_999), 0);
    let times = LeaseTimes { granted_us: START, due_us: START + 200_000 };
    assert_eq!(lease.end(START + 200_000), (8, times));
    assert!(lease.take(START).is_none(), "it ended");
}
