//! Slots that are moved to and fro under load.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use tollgate_filters::limiter::rule::Rule;
use tollgate_filters::limiter::verdict::Source;
use tollgate_test_support::Cluster;

use super::{PATIENT, all_failures, connected, ids_on, one_key, slot, store, two_keys};
use crate::support::ask;

/// What each key admits.
const BURST: u64 = 150;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slots_move_to_and_fro_under_load_and_every_count_is_exact() {
    let cluster = Arc::new(Cluster::primaries());
    let clients = [connected(&cluster, PATIENT).await, connected(&cluster, PATIENT).await];
    let ids = ids_on(&cluster, 0, 4);
    let slots: Vec<u16> = ids.iter().map(|id| slot(&cluster, id)).collect();
    let moved = Arc::new(AtomicBool::new(false));
    let moves = {
        let (cluster, moved) = (Arc::clone(&cluster), Arc::clone(&moved));
        std::thread::spawn(move || {
            // There and back, and on to the third.
            for to in [1, 0, 2] {
                slots.iter().for_each(|&slot| cluster.move_slot(slot, to));
            }
            moved.store(true, Relaxed);
        })
    };

    let admitted = Arc::new(ids.iter().map(|_| [AtomicU64::new(0), AtomicU64::new(0)]).collect::<Vec<_>>());
    let mut tasks = tokio::task::JoinSet::new();
    for (key, id) in ids.iter().enumerate() {
        for (client, (kind, rule)) in clients.iter().zip([(0, one_key(BURST)), (1, two_keys(BURST))]).chain(
            // And the other way round.
            clients.iter().rev().zip([(0, one_key(BURST)), (1, two_keys(BURST))]),
        ) {
            let (store, id, moved, admitted) = (store(client), id.clone(), Arc::clone(&moved), Arc::clone(&admitted));
            tasks.spawn(async move {
                let rule: Rule = rule;
                // Beyond the burst as well, and for as long as slots move.
                let mut asked = 0;
                while asked < BURST || !moved.load(Relaxed) {
                    let verdict = ask(&store, &id, &rule).await;
                    assert_eq!(verdict.source, Source::Redis, "{id} {rule:?}");
                    admitted[key][kind].fetch_add(u64::from(verdict.is_allowed()), Relaxed);
                    asked += 1;
                }
                asked
            });
        }
    }
    let asked: u64 = tasks.join_all().await.iter().sum();
    moves.join().unwrap();
    for (id, counts) in ids.iter().zip(&*admitted) {
        assert_eq!([counts[0].load(Relaxed), counts[1].load(Relaxed)], [BURST; 2], "{id}");
    }
    for client in &clients {
        assert_eq!(all_failures(client), 0, "{:?}", client.status());
    }
    let redirected = |node: usize, what: &str| {
        let stats: String = cluster.nodes[node].query(&["INFO", "errorstats"]).unwrap();
        stats.contains(&format!("errorstat_{what}"))
    };
    assert!((0..2).any(|node| redirected(node, "MOVED") || redirected(node, "ASK")), "slots moved under load");
    println!("{asked} decisions");
}
