//! Refresh of a cluster's slot map.

use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, ConnectionInfo, RedisResult};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::Cluster;
use super::slots_reply::{SlotRanges, parse_slots};
use crate::store::redis::error::{StoreError, describe};
use crate::store::redis::random::jittered;
use crate::store::redis::settings::HostPort;

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
type Failure = (StoreError, String);

/// Refreshes the map for as long as the client lives.
pub(super) async fn run(cluster: Arc<Cluster>) {
    for turn in 0.. {
        match cluster.read_slots(turn).await {
            Ok(ranges) => cluster.replace_map(ranges),
            Err((kind, detail)) => cluster.record_refresh_error(kind, detail),
        }
        sleep(jittered(MIN_INTERVAL)).await;
        let pause = if cluster.is_healthy() { HEALTHY_INTERVAL } else { jittered(UNHEALTHY_INTERVAL) };
        let _ = timeout(pause, cluster.context.refresh_requested()).await;
    }
}

impl Cluster {
    /// Asks connected nodes, starting with another one each turn, then the configured seeds. The first valid reply wins.
    /// A node that hangs does not delay the others.
    async fn read_slots(&self, turn: usize) -> Result<SlotRanges, Failure> {
        let mut connected: Vec<_> =
            self.nodes().into_iter().filter_map(|node| Some((node.live_connection()?.1, node))).collect();
        let first = turn % connected.len().max(1);
        connected.rotate_left(first);
        let mut seeds: Vec<&HostPort> = self.seeds.iter().collect();
        seeds.retain(|seed| connected.iter().all(|(_, node)| node.name != seed.to_string()));
        let first = turn % seeds.len().max(1);
        seeds.rotate_left(first);

        let mut asked = JoinSet::new();
        let mut failure = (StoreError::ClusterDown, String::from("no node of the cluster is reachable"));
        for (live, node) in connected {
            let host = node.host().unwrap_or_default().to_owned();
            asked.spawn(with_deadline(query_slots(live.connection, host)));
            if let Some(ranges) = first_reply(&mut asked, NEXT_NODE_AFTER, &mut failure).await {
                return Ok(ranges);
            }
        }
        for seed in seeds {
            match self.context.connector.connection_info(seed) {
                Ok(info) => asked.spawn(with_deadline(query_seed(info, seed.host.clone()))),
                Err(error) => {
                    failure = (StoreError::classify(&error), describe(&error));
                    continue;
                }
            };
            if let Some(ranges) = first_reply(&mut asked, NEXT_NODE_AFTER, &mut failure).await {
                return Ok(ranges);
            }
        }
        first_reply(&mut asked, REPLY_TIMEOUT, &mut failure).await.ok_or(failure)
    }
}

/// First valid reply within `within`; `None` as soon as all have failed.
async fn first_reply(
    asked: &mut JoinSet<Result<SlotRanges, Failure>>,
    within: Duration,
    failure: &mut Failure,
) -> Option<SlotRanges> {
    let reply = async {
        loop {
            match asked.join_next().await? {
                Ok(Ok(ranges)) => return Some(ranges),
                Ok(Err(error)) => *failure = error,
                Err(_) => {}
            }
        }
    };
    timeout(within, reply).await.ok().flatten()
}

async fn with_deadline(reply: impl Future<Output = Result<SlotRanges, Failure>>) -> Result<SlotRanges, Failure> {
    let late = |_| Err((StoreError::Timeout, String::from("no reply to CLUSTER SLOTS")));
    timeout(REPLY_TIMEOUT, reply).await.unwrap_or_else(late)
}

async fn query_seed(info: ConnectionInfo, host: String) -> Result<SlotRanges, Failure> {
    let connection = connect(info).await.map_err(|error| (StoreError::classify(&error), describe(&error)))?;
    query_slots(connection, host).await
}

async fn connect(info: ConnectionInfo) -> RedisResult<MultiplexedConnection> {
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(REPLY_TIMEOUT))
        .set_response_timeout(Some(REPLY_TIMEOUT));
    redis::Client::open(info)?.get_multiplexed_async_connection_with_config(&config).await
}

async fn query_slots(mut connection: MultiplexedConnection, host: String) -> Result<SlotRanges, Failure> {
    let reply = connection.send_packed_command(redis::cmd("CLUSTER").arg("SLOTS")).await;
    let reply = reply
        .and_then(redis::Value::extract_error)
        .map_err(|error| (StoreError::classify(&error), describe(&error)))?;
    parse_slots(&reply, &host).ok_or_else(|| (StoreError::ClusterDown, String::from("the node knows no slots")))
}
