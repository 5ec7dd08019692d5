//! Late replies.

use std::time::Duration;

use tollgate_limiter::rule::{Rule, TokenBucket};
use tollgate_limiter::store::OnStoreFailure;
use tollgate_limiter::verdict::Source;
use tollgate_test_support::Fault;

use super::{BUDGET, Fixture};
use crate::support::{ask, eventually};

/// A bucket that refills nothing during a test, so that the remaining tokens count the decisions.
fn daily(burst: u64) -> Rule {
    Rule::Gcra(TokenBucket::new(1, Duration::from_secs(86_400), burst).unwrap())
}

/// Two keys with distinguishable replies, and delays on both sides of the timeout: each reply must reach its own request.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn late_replies_reach_no_other_request() {
    let fixture = Fixture::start().await;
    let store = fixture.store(OnStoreFailure::Allow);
    let keys = [("small", daily(1_000)), ("large", daily(1_000_000))];
    let (mut asked, mut last) = ([0; 2], [None; 2]);
    let (mut answered, mut missed) = (0, 0);
    for delay in [60, 95, 105, 130, 180].repeat(5) {
        // Two calls that may be late, and behind them on the same connection three that are not.
        for (turn, which) in [0, 1, 1, 0, 1].into_iter().enumerate() {
            let delay = if turn < 2 { Duration::from_millis(delay) } else { Duration::ZERO };
            fixture.proxy.set(Fault::Delay(delay));
            let (key, rule) = &keys[which];
            let verdict = ask(&store, key, rule).await;
            asked[which] += 1;
            if verdict.source == Source::Fallback {
                missed += 1;
                continue;
            }
            answered += 1;
            let left = verdict.remaining.unwrap();
            let possible = rule.capacity() - asked[which]..last[which].unwrap_or(rule.capacity());
            assert!(possible.contains(&left), "{key}, {delay:?}: {left} is not in {possible:?}");
            last[which] = Some(left);
        }
        fixture.recovery().await;
    }
    println!("{answered} answered, {missed} too late");
    assert!(answered >= 30 && missed >= 10, "{answered} {missed}");
    assert!(fixture.client.stats().connects.get() < 20, "late replies alone do not close the connection");
}

/// A call that ran and was not answered in time is not repeated.
#[tokio::test]
async fn a_call_that_may_have_run_is_not_charged_twice() {
    let fixture = Fixture::start().await;
    let store = fixture.store(OnStoreFailure::Allow);
    let rule = daily(1_000);
    ask(&store, "k", &rule).await;
    // One call found the script missing and took nothing.
    let calls = || fixture.proxy.calls() - 1;
    fixture.proxy.set(Fault::HoldReplies);
    for _ in 0..2 {
        assert_eq!(ask(&store, "k", &rule).await.source, Source::Fallback);
    }
    eventually("both ran", async || calls() == 3).await;
    fixture.proxy.set(Fault::Pass);
    // A busy machine may make it late once more; that call was charged as well.
    let mut late = 0;
    let left = loop {
        let verdict = ask(&store, "k", &rule).await;
        if verdict.source != Source::Fallback {
            break verdict.remaining.unwrap();
        }
        late += 1;
        assert!(late < 20);
        tokio::time::sleep(BUDGET).await;
    };
    assert_eq!(left + u64::try_from(calls()).unwrap(), 1_000, "each call took one token, and no other ran");
    assert!(calls() <= 4 + late);
}
