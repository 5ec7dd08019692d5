//! Several gateways without their store.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::num::NonZeroUsize;

use proptest::prelude::*;

use super::*;
use crate::key::BucketKey;
use crate::rule::{Align, FixedWindow, Quota, SlidingWindowLog, TokenBucket};
use crate::store::memory::ManualClock;

const SECOND: u64 = 1_000_000;
const START: u64 = 1_000 * SECOND;
const KEY: BucketKey<'_> = BucketKey { scope: "r", id: b"k" };

/// Gateways on one clock.
struct Fleet {
    stores: Vec<Arc<MemoryStore>>,
    clock: Arc<ManualClock>,
}

impl Fleet {
    fn new(gateways: usize) -> Self {
        let clock = Arc::new(ManualClock::default());
        clock.set(START);
        let store = |_| Arc::new(MemoryStore::with_clock(clock.clone()).with_max_keys(NonZeroUsize::new(64).unwrap()));
        Self { stores: (0..gateways).map(store).collect(), clock }
    }

    /// Returns the verdict of one gateway.
    fn ask(&self, gateway: usize, rule: &Rule, cost: u64) -> Verdict {
        let gateways = NonZeroU32::new(self.stores.len() as u32).unwrap();
        let check = Check { key: KEY, rule, cost };
        Fallback::new(OnStoreFailure::Local, &self.stores[gateway % self.stores.len()], &[check], gateways).decide()
    }

    /// Runs steps of elapsed time, gateway and requests. Returns the times of admitted requests.
    fn admitted(&self, rule: &Rule, cost: u64, steps: &[(u64, usize, usize)]) -> Vec<u64> {
        use crate::store::memory::Clock as _;
        let mut admitted = Vec::new();
        for &(elapsed, gateway, requests) in steps {
            self.clock.set(self.clock.now_us() + elapsed);
            let allowed = (0..requests).filter(|_| self.ask(gateway, rule, cost).is_allowed()).count();
            admitted.extend(std::iter::repeat_n(self.clock.now_us(), allowed));
        }
        admitted
    }
}

fn steps() -> impl Strategy<Value = Vec<(u64, usize, usize)>> {
    let elapsed = prop_oneof![3 => Just(0u64), 3 => 0..50_000u64, 2 => 0..SECOND, 1 => 0..10 * SECOND];
    prop::collection::vec((elapsed, 0..8usize, 1..8usize), 1..80)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn gateways_without_their_store_admit_no_more_than_the_bucket(
        gateways in 1usize..8, rate in 1u64..50, burst in 0u64..30, cost in 1u64..6, steps in steps()
    ) {
        let rule = Rule::Gcra(TokenBucket::per_second(rate, burst).unwrap());
        let times = Fleet::new(gateways).admitted(&rule, cost, &steps);
        for (first, &from) in times.iter().enumerate() {
            for (count, &until) in (1..).zip(&times[first..]) {
                prop_assert!(count * cost * SECOND <= burst * SECOND + rate * (until - from), "{count} of {burst}");
            }
        }
    }

    #[test]
    fn gateways_without_their_store_admit_no_more_than_the_window(
        gateways in 1usize..8, limit in 0u64..30, window_us in 10_000..5 * SECOND, cost in 1u64..6, steps in steps()
    ) {
        let window = Duration::from_micros(window_us);
        let fixed = Rule::FixedWindow(FixedWindow::new(limit, window, Align::Clock).unwrap());
        let times = Fleet::new(gateways).admitted(&fixed, cost, &steps);
        for chunk in times.chunk_by(|a, b| a / window_us == b / window_us) {
            prop_assert!(chunk.len() as u64 * cost <= limit, "{} of {limit}", chunk.len());
        }
        let sliding = Rule::SlidingWindowLog(SlidingWindowLog::new(limit, window).unwrap());
        let times = Fleet::new(gateways).admitted(&sliding, cost, &steps);
        for (first, from) in times.iter().enumerate() {
            let within = times[first..].iter().take_while(|at| *at - from < window_us).count() as u64;
            prop_assert!(within * cost <= limit, "{within} of {limit}");
        }
        let quota = Rule::Quota(Quota::new(limit).unwrap());
        prop_assert!(Fleet::new(gateways).admitted(&quota, cost, &steps).len() as u64 * cost <= limit);
    }
}

#[test]
fn a_share_of_less_than_the_request_is_a_failure_of_the_store() {
    let fleet = Fleet::new(3);
    let rule = |burst| Rule::TokenBucket(TokenBucket::per_second(1, burst).unwrap());
    let unavailable = Outcome::StoreUnavailable { retry_after: RETRY_AFTER };
    assert_eq!(fleet.ask(0, &rule(2), 1).outcome, unavailable, "two thirds of a request");
    assert_eq!(fleet.ask(0, &rule(20), 7).outcome, unavailable, "six tokens of seven");
    assert_eq!(fleet.ask(0, &rule(20), 6).outcome, Outcome::Allowed);
    assert_eq!(fleet.ask(0, &rule(2), 3).outcome, Outcome::NeverAdmitted, "not for the store's sake");
}
