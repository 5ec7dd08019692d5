//! Refresh of a cluster's slot map.

use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, ConnectionInfo, RedisResult};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::Cluster;
use super::home::HomeCluster;
use super::slots_reply::{ClusterView, parse_slots};
use crate::store::redis::connection_settings::HostPort;
use crate::store::redis::error::{StoreError, describe};
use crate::store::redis::random::jittered;

/// Time between refreshes of a healthy cluster; redirections report most changes earlier.
const HEALTHY_INTERVAL: Duration = Duration::from_secs(10);

/// Time between refreshes while a node is unhealthy: the delay until its replacement is known.
const UNHEALTHY_INTERVAL: Duration = Duration::from_millis(300);

/// About the least time between two refreshes, however many are requested.
const MIN_INTERVAL: Duration = Duration::from_millis(200);

/// Deadline for a node's reply, including the connection to it.
const REPLY_TIMEOUT: Duration = Duration::from_secs(1);

/// Time without a reply after which the next node is queried in addition.
const NEXT_NODE_AFTER: Duration = Duration::from_millis(100);

/// An error and its message.
pub(super) type Failure = (StoreError, String);

/// One round of questions to nodes.
struct Round<'h> {
    home: &'h HomeCluster,
    queries: JoinSet<Result<ClusterView, Failure>>,
    /// First reply of a node of another cluster.
    foreign: Option<ClusterView>,
    failure: Failure,
}

/// Refreshes the map for as long as the client lives.
pub(super) async fn run(cluster: Arc<Cluster>) {
    let home = HomeCluster::of(&cluster.seeds);
    for turn in 0.. {
        match cluster.read_slots(turn, &home).await {
            Ok(view) => {
                home.record(&view);
                cluster.replace_map(view.ranges);
            }
            Err((kind, detail)) => cluster.record_refresh_error(kind, detail),
        }
        sleep(jittered(MIN_INTERVAL)).await;
        let is_healthy = cluster.is_healthy() && !home.is_awaited();
        let pause = if is_healthy { HEALTHY_INTERVAL } else { jittered(UNHEALTHY_INTERVAL) };
        let _ = timeout(pause, cluster.context.refresh_requested()).await;
    }
}

impl Cluster {
    /// Asks connected nodes, starting with another one each turn, then other known nodes and the configured seeds. The
    /// first valid reply of a node of the `home` cluster wins. A node that hangs does not delay the others.
    async fn read_slots(&self, turn: usize, home: &Arc<HomeCluster>) -> Result<ClusterView, Failure> {
        if !home.is_known() {
            let view = self.discover(home).await?;
            if home.includes(&view) {
                return Ok(view);
            }
        }
        let mut connected: Vec<_> =
            self.nodes().into_iter().filter_map(|node| Some((node.live_connection()?.1, node))).collect();
        let first = turn % connected.len().max(1);
        connected.rotate_left(first);
        let (home_nodes, mut others) = (home.nodes(), Vec::<&HostPort>::new());
        for at in home_nodes.iter().chain(&self.seeds) {
            if !others.contains(&at) && connected.iter().all(|(_, node)| node.name != at.to_string()) {
                others.push(at);
            }
        }

        let mut round = Round::new(home);
        for (live, node) in connected {
            let host = node.host().unwrap_or_default().to_owned();
            round.queries.spawn(with_deadline(query_slots(live.connection, host)));
            if let Some(view) = round.reply(NEXT_NODE_AFTER).await {
                return Ok(view);
            }
        }
        for at in others {
            let info = self.context.connector.connection_info(at);
            round.queries.spawn(with_deadline(query_node(info, at.host.clone())));
            if let Some(view) = round.reply(NEXT_NODE_AFTER).await {
                return Ok(view);
            }
        }
        round.last_reply().await
    }
}

impl<'h> Round<'h> {
    fn new(home: &'h HomeCluster) -> Self {
        Self { home, queries: JoinSet::new(), foreign: None, failure: none_reachable() }
    }

    /// First valid reply of a node of the home cluster within `within`; `None` as soon as all have replied otherwise.
    async fn reply(&mut self, within: Duration) -> Option<ClusterView> {
        let reply = async {
            loop {
                match self.queries.join_next().await? {
                    Ok(Ok(view)) if self.home.includes(&view) => return Some(view),
                    Ok(Ok(view)) => self.foreign = self.foreign.take().or(Some(view)),
                    Ok(Err(error)) => self.failure = error,
                    Err(_) => {}
                }
            }
        };
        timeout(within, reply).await.ok().flatten()
    }

    /// Does the same once all nodes are asked. Without a reply of the home cluster, another cluster's counts.
    async fn last_reply(mut self) -> Result<ClusterView, Failure> {
        self.reply(REPLY_TIMEOUT).await.or(self.foreign).ok_or(self.failure)
    }
}

pub(super) fn none_reachable() -> Failure {
    (StoreError::ClusterDown, String::from("no node of the cluster is reachable"))
}

pub(super) async fn with_deadline(
    reply: impl Future<Output = Result<ClusterView, Failure>>,
) -> Result<ClusterView, Failure> {
    let late = |_| Err((StoreError::Timeout, String::from("no reply to CLUSTER SLOTS")));
    timeout(REPLY_TIMEOUT, reply).await.unwrap_or_else(late)
}

/// Asks the node at `info`, which was reached as `host`, over a connection of its own.
pub(super) async fn query_node(info: RedisResult<ConnectionInfo>, host: String) -> Result<ClusterView, Failure> {
    let connection =
        async { connect(info?).await }.await.map_err(|error| (StoreError::classify(&error), describe(&error)))?;
    query_slots(connection, host).await
}

async fn connect(info: ConnectionInfo) -> RedisResult<MultiplexedConnection> {
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(REPLY_TIMEOUT))
        .set_response_timeout(Some(REPLY_TIMEOUT));
    redis::Client::open(info)?.get_multiplexed_async_connection_with_config(&config).await
}

async fn query_slots(mut connection: MultiplexedConnection, host: String) -> Result<ClusterView, Failure> {
    let reply = connection.send_packed_command(redis::cmd("CLUSTER").arg("SLOTS")).await;
    let reply = reply
        .and_then(redis::Value::extract_error)
        .map_err(|error| (StoreError::classify(&error), describe(&error)))?;
    parse_slots(&reply, &host).ok_or_else(|| (StoreError::ClusterDown, String::from("the node knows no slots")))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::*;

    fn view(port: u16, id: &str) -> ClusterView {
        let ranges = vec![(0..=16_383, HostPort { host: "h".into(), port })];
        ClusterView { ranges, ids: [id.as_bytes().to_vec()].into() }
    }

    async fn late(view: ClusterView, after_ms: u64) -> Result<ClusterView, Failure> {
        sleep(Duration::from_millis(after_ms)).await;
        Ok(view)
    }

    #[tokio::test(start_paused = true)]
    async fn another_cluster_is_adopted_only_if_no_known_node_replies() {
        let home = HomeCluster::default();
        home.record(&view(1, "a"));
        for (home_after_ms, expected) in [(900, view(1, "a")), (1_100, view(2, "b"))] {
            let mut round = Round::new(&home);
            round.queries.spawn(with_deadline(late(view(1, "a"), home_after_ms)));
            assert_eq!(round.reply(NEXT_NODE_AFTER).await, None);
            round.queries.spawn(with_deadline(late(view(2, "b"), 0)));
            assert_eq!(round.reply(NEXT_NODE_AFTER).await, None);
            assert_eq!(round.last_reply().await.unwrap(), expected, "{home_after_ms} ms");
        }
    }
}
