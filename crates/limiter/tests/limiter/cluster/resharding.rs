//! Slots that migrate back and forth under load.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use tollgate_limiter::rule::Rule;
use tollgate_limiter::store::redis::RedisStore;
use tollgate_limiter::verdict::Source;
use tollgate_test_support::Cluster;

use super::{PATIENT, all_failures, connected, ids_on, one_key, slot, store, two_keys};
use crate::support::ask;

/// Capacity of each bucket.
const BURST: u64 = 500;

/// Requests of each of two gateways for each bucket.
const ASKS: u64 = 400;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counts_stay_exact_while_slots_migrate_under_load() {
    let cluster = Arc::new(Cluster::primaries());
    let clients = [connected(&cluster, PATIENT).await, connected(&cluster, PATIENT).await];
    let ids = ids_on(&cluster, 0, 3);
    let slots: Vec<u16> = ids.iter().map(|id| slot(&cluster, id)).collect();
    let over = Arc::new(AtomicBool::new(false));
    let decided = Arc::<AtomicU64>::default();
    let moving = {
        let (cluster, over, decided) = (Arc::clone(&cluster), Arc::clone(&over), Arc::clone(&decided));
        std::thread::spawn(move || {
            let mut moves = 0;
            for to in [1, 0, 2, 1, 2, 0].into_iter().cycle() {
                for &slot in slots.iter().filter(|&&slot| cluster.primary_of(slot) != to) {
                    // A call follows few redirections: on a busy machine, moves without a pause could outrun it.
                    let before = decided.load(Relaxed);
                    while decided.load(Relaxed) < before + 48 && !over.load(Relaxed) {
                        std::thread::sleep(Duration::from_millis(1));
                    }
                    if over.load(Relaxed) {
                        return moves;
                    }
                    cluster.move_slot(slot, to);
                    moves += 1;
                }
            }
            moves
        })
    };
    let mut buckets = Vec::new();
    for id in &ids {
        for rule in [one_key(BURST), two_keys(BURST)] {
            let admitted = Arc::<AtomicU64>::default();
            let asks = clients.iter().map(|client| {
                tokio::spawn(ask_for(
                    store(client).denial_cache(false),
                    id.clone(),
                    rule.clone(),
                    [&admitted, &decided].map(Arc::clone),
                ))
            });
            buckets.push((id, rule.algorithm(), asks.collect::<Vec<_>>(), admitted));
        }
    }
    for (id, algorithm, asks, admitted) in buckets {
        for asks in asks {
            asks.await.unwrap();
        }
        assert_eq!(admitted.load(Relaxed), BURST, "{id} {algorithm:?}");
    }
    over.store(true, Relaxed);
    let moves = moving.join().unwrap();
    for client in &clients {
        assert_eq!(all_failures(client), 0, "{:?}", client.status());
    }
    println!("{} decisions while {moves} slots moved", 12 * ASKS);
    assert!(moves >= 3, "slots moved under load");
}

async fn ask_for(store: RedisStore, id: String, rule: Rule, [admitted, decided]: [Arc<AtomicU64>; 2]) {
    for _ in 0..ASKS {
        let verdict = ask(&store, &id, &rule).await;
        assert_eq!(verdict.source, Source::Redis, "{id} {rule:?}");
        admitted.fetch_add(u64::from(verdict.is_allowed()), Relaxed);
        decided.fetch_add(1, Relaxed);
    }
}
