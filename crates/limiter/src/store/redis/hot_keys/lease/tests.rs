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
    /// The lease ends, and Redis receives the return `late_us` later.
    End { late_us: u64 },
}

/// One step: elapsed time, index of the gateway, latency to Redis, and the action.
type Step = (u64, usize, u64, Act);

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let elapsed = prop_oneof![4 => Just(0u64), 4 => 0..20_000u64, 2 => 0..SECOND, 1 => 0..10 * SECOND];
    let act = prop_oneof![
        12 => prop_oneof![Just(0u64), 0..30u64].prop_map(|spare| Act::Request { spare }),
        1 => (0..50_000u64).prop_map(|late_us| Act::End { late_us }),
    ];
    prop::collection::vec((elapsed, 0..3usize, 0..5_000u64, act), 1..120)
}

/// Runs `steps` against `rule` in the place of Redis. Returns the times of admitted requests, by one clock.
fn admitted<A: Algorithm>(rule: &A, kind: &Rule, cost: u64, lasts_us: u64, steps: &[Step]) -> Vec<u64> {
    let (mut redis, mut leases, mut now, mut admitted) = (None, [const { None::<Lease> }; 3], START, Vec::new());
    let apply = |redis: &mut Option<A::State>, change: Option<A::Change>| {
        if let Some(change) = change {
            *redis = Some(A::apply(redis.take(), change));
        }
    };
    let decide = |redis: &mut Option<A::State>, now, cost| {
        let (answer, change) = rule.decide(redis.as_ref(), Moment::at(now), cost);
        apply(redis, change);
        answer
    };
    for (elapsed, gateway, latency_us, act) in steps {
        now += elapsed;
        let lease = &mut leases[*gateway];
        match act {
            Act::Request { spare } => {
                if lease.as_mut().and_then(|lease| lease.take(now)).is_some() {
                    admitted.push(now);
                    continue;
                }
                let sent = now;
                now += latency_us;
                // The rest of an old lease is never used.
                *lease = None;
                let whole = decide(&mut redis, now, cost * (1 + spare));
                if whole.outcome == Outcome::Allowed {
                    admitted.push(now);
                    *lease = Some(Lease::new(std::iter::once((kind, cost)), &[whole], *spare, sent, lasts_us));
                } else if decide(&mut redis, now, cost).outcome == Outcome::Allowed {
                    admitted.push(now);
                }
                now += latency_us;
            }
            Act::End { late_us } => {
                let Some(mut lease) = lease.take() else { continue };
                let (left, counted) = lease.end(now + late_us);
                now += late_us.min(latency_us);
                let more = -i64::try_from(left * cost).unwrap();
                let change = rule.settle(redis.as_ref(), Moment::at(now), more, counted[0]);
                apply(&mut redis, change);
            }
        }
    }
    admitted
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn gateways_with_leases_admit_no_more_than_the_bucket(
        rate in 1u64..200, secs in 1u64..4, burst in 1u64..60, cost in 1u64..4, lasts_us in 1_000..3 * SECOND, steps in steps()
    ) {
        let bucket = TokenBucket::new(rate, Duration::from_secs(secs), burst).unwrap();
        let times = admitted(&bucket, &Rule::Gcra(bucket.clone()), cost, lasts_us, &steps);
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
        let times = admitted(&window, &Rule::FixedWindow(window.clone()), cost, lasts_us, &steps);
        for chunk in times.chunk_by(|a, b| a / window_us == b / window_us) {
            prop_assert!(chunk.len() as u64 * cost <= limit, "{chunk:?}");
        }
    }
}

fn lease(spare: u64) -> Lease {
    let bucket = TokenBucket::per_second(10, 20).unwrap();
    let (answer, _) = bucket.decide(None, Moment::at(START), 1 + spare);
    Lease::new(std::iter::once((&Rule::Gcra(bucket), 1)), &[answer], spare, START, SECOND / 2)
}

#[test]
fn spare_requests_are_used_one_by_one_until_the_lease_ends() {
    let mut spent = lease(3);
    let left: Vec<u64> = (0..4).map_while(|_| spent.take(START)).map(|answers| answers[0].remaining).collect();
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
    assert_eq!(lease.end(START + 200_000), (8, vec![START]));
    assert!(lease.take(START).is_none(), "it ended");
}
