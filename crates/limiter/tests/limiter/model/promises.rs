//! Guarantees of every algorithm, in memory and in Redis: the bound in any stretch of time, and exact retry delays.

use tollgate_limiter::key::BucketKey;
use tollgate_limiter::rule::Rule;
use tollgate_limiter::store::Check;
use tollgate_limiter::verdict::{Outcome, Verdict};

use super::definition::micros;
use super::rng::Rng;
use super::stores::Stores;
use super::{KINDS, number};
use crate::support::RedisServer;

const SECOND: u64 = 1_000_000;

/// Single client of one rule.
struct Client {
    stores: Stores,
    scope: String,
    rule: Rule,
}

impl Client {
    async fn ask(&self, cost: u64) -> Verdict {
        let check = Check { key: BucketKey { scope: &self.scope, id: b"me" }, rule: &self.rule, cost };
        self.stores.decide(&[check]).await.unwrap_or_else(|problem| panic!("{:?}: {problem}", self.rule))
    }

    async fn is_admitted(&self, cost: u64) -> bool {
        self.ask(cost).await.is_allowed()
    }
}

/// Sends requests as early as admitted, after the exact retry delays; returns times and costs of the admitted ones.
async fn greedy(client: &Client, rng: &mut Rng) -> Vec<(u64, u64)> {
    let (clock, mut admitted) = (&client.stores.clock, Vec::new());
    for _ in 0..rng.within(10, 40) {
        let cost = rng.pick(&[1, 1, 1, 2, 3]);
        let verdict = client.ask(cost).await;
        let now = client.stores.now();
        match verdict.outcome {
            Outcome::Allowed => admitted.push((verdict.counted_at_us, cost)),
            Outcome::Denied { retry_after } => {
                let wait = micros(retry_after);
                if wait > SECOND {
                    clock.set(now + wait - SECOND);
                    assert!(!client.is_admitted(cost).await, "a second early: {:?}", client.rule);
                }
                clock.set(now + wait - 1);
                assert!(!client.is_admitted(cost).await, "a microsecond early: {:?}", client.rule);
                clock.set(now + wait);
                let verdict = client.ask(cost).await;
                assert!(verdict.is_allowed(), "after {wait} µs as promised: {:?}", client.rule);
                admitted.push((verdict.counted_at_us, cost));
            }
            Outcome::NeverAdmitted => {}
            other => panic!("{other:?}"),
        }
        let idle = rng.pick(&[0, 0, 0, 1, SECOND / 10, SECOND, 100 * SECOND]);
        clock.set(client.stores.now() + rng.below(idle + 1));
    }
    admitted
}

#[tokio::test]
async fn no_key_exceeds_its_bound_and_every_retry_delay_is_exact() {
    let server = RedisServer::start();
    let redis = server.connected_client().await;
    let clients = number("TOLLGATE_TRACES").map_or(50, |traces| traces / 200);
    for kind in KINDS {
        let mut waited = 0;
        for seed in 0..clients {
            let mut rng = Rng::new(seed);
            let stores = Stores::new(&redis);
            stores.clock.set(1_763_700_000 * SECOND + rng.below(100_000 * SECOND));
            let scope = format!("{}{seed}{}", kind.name, rng.pick(&["", "#rule"]));
            let client = Client { stores, scope, rule: (kind.rule)(&mut rng) };
            let admitted = greedy(&client, &mut rng).await;
            waited += usize::from(admitted.windows(2).any(|pair| pair[0].0 < pair[1].0));
            for (first, &(from, _)) in admitted.iter().enumerate() {
                let mut sum = 0;
                for &(until, cost) in &admitted[first..] {
                    sum += u128::from(cost);
                    let bound = (kind.bound)(&client.rule, until - from);
                    assert!(sum <= bound, "seed {seed}: {sum} in {} µs under {:?}", until - from, client.rule);
                }
            }
        }
        assert!(waited > 0, "{} has no denied request", kind.name);
    }
}
