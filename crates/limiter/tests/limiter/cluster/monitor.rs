//! `INFO` and heartbeats while a node hangs.

use std::time::Duration;

use tollgate_limiter::store::redis::{GatewayCount, Heartbeat};
use tollgate_test_support::Cluster;

use super::connected;

#[tokio::test]
async fn info_of_other_nodes_is_read_while_one_hangs() {
    let cluster = Cluster::primaries();
    let client = connected(&cluster, Duration::from_secs(2)).await;
    let keeper = cluster.primary_of(cluster.slot("tollgate.gateways"));
    let count = GatewayCount::default();
    let mut gateways = [Heartbeat::new(GatewayCount::default()), Heartbeat::new(count.clone())];
    for gateway in &mut gateways {
        gateway.beat(&client).await.unwrap();
    }
    assert_eq!(count.get().get(), 2);
    let mut infos = client.info().await;
    infos.sort_by(|a, b| a.0.cmp(&b.0));
    let mut names: Vec<_> = cluster.nodes[..3].iter().map(|node| node.address.to_string()).collect();
    names.sort();
    assert_eq!(infos.iter().map(|(name, _)| name).collect::<Vec<_>>(), names.iter().collect::<Vec<_>>());
    assert!(infos.iter().all(|(_, info)| info.as_ref().unwrap().used_memory.is_some()));

    let hanging = (keeper + 1) % 3;
    cluster.nodes[hanging].freeze();
    let infos = client.info().await;
    let hidden = cluster.nodes[hanging].address.to_string();
    assert!(infos.len() == 2 && infos.iter().all(|(name, _)| *name != hidden), "{infos:?}");
    gateways[1].beat(&client).await.unwrap();
    assert_eq!(count.get().get(), 2);
    cluster.nodes[hanging].thaw();
}
