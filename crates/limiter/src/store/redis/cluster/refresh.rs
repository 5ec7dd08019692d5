//! Learning the map of a cluster, and keeping it up to date.

use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, ConnectionInfo, RedisResult};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::super::error::StoreError;
use super::super::settings::HostPort;
use super::super::shared::{Shared, Topology};
use super::super::supervisor::{describe, jittered};
use super::Cluster;
use super::view::{View, view};

/// How often the map is looked at while all is well: redirections tell of most changes before.
const EVERY: Duration = Duration::from_secs(10);

/// How often while a node cannot be asked: whoever takes its place is known as much later at most.
const WHILE_UNWELL: Duration = Duration::from_millis(300);

/// About the least time between two looks, however many ask for one.
const BETWEEN: Duration = Duration::from_millis(200);

/// The longest time in which a node must answer, a connection to it included.
const ANSWER_WITHIN: Duration = Duration::from_secs(1);

/// Without an answer for so long, the next node is asked as well.
const NEXT_AFTER: Duration = Duration::from_millis(100);

/// Why there is no answer: its kind, and what was said.
type Failure = (StoreError, String);

/// Looks at the map for as long as the client lives.
pub(super) async fn run(shared: Arc<Shared>) {
    let Topology::Cluster(cluster) = &shared.topology else { return };
    for turn in 0.. {
        match cluster.learn(turn).await {
            Ok(view) => cluster.adopt(&shared, view),
            Err((kind, reason)) => cluster.not_learnt(&shared, kind, reason),
        }
        sleep(jittered(BETWEEN)).await;
        let pause = if cluster.is_well() { EVERY } else { jittered(WHILE_UNWELL) };
        let _ = timeout(pause, cluster.outdated.notified()).await;
    }
}

impl Cluster {
    /// Asks the nodes that are connected, another one first each time, then those that were configured; the first
    /// answer counts. One that hangs does not hold up the others.
    async fn learn(&self, turn: usize) -> Result<View, Failure> {
        let mut connected: Vec<_> =
            self.nodes().into_iter().filter_map(|node| Some((node.find_live()?.1, node))).collect();
        let first = turn % connected.len().max(1);
        connected.rotate_left(first);
        let mut strangers: Vec<&HostPort> = self.seeds.iter().collect();
        strangers.retain(|seed| connected.iter().all(|(_, node)| node.name != seed.to_string()));
        let first = turn % strangers.len().max(1);
        strangers.rotate_left(first);

        let mut asked = JoinSet::new();
        let mut failure = (StoreError::ClusterDown, String::from("no node can be asked"));
        for (live, node) in connected {
            let host = node.host().unwrap_or_default().to_owned();
            asked.spawn(in_time(slots(live.connection, host)));
            if let Some(view) = first_answer(&mut asked, NEXT_AFTER, &mut failure).await {
                return Ok(view);
            }
        }
        for seed in strangers {
            match self.dial.to(seed) {
                Ok(info) => asked.spawn(in_time(slots_of_stranger(info, seed.host.clone()))),
                Err(error) => {
                    failure = (StoreError::of(&error), describe(&error));
                    continue;
                }
            };
            if let Some(view) = first_answer(&mut asked, NEXT_AFTER, &mut failure).await {
                return Ok(view);
            }
        }
        first_answer(&mut asked, ANSWER_WITHIN, &mut failure).await.ok_or(failure)
    }
}

/// The first good answer within `within`; `None` as soon as all have failed.
async fn first_answer(
    asked: &mut JoinSet<Result<View, Failure>>,
    within: Duration,
    failure: &mut Failure,
) -> Option<View> {
    let answer = async {
        loop {
            match asked.join_next().await? {
                Ok(Ok(view)) => return Some(view),
                Ok(Err(error)) => *failure = error,
                Err(_) => {}
            }
        }
    };
    timeout(within, answer).await.ok().flatten()
}

async fn in_time(answer: impl Future<Output = Result<View, Failure>>) -> Result<View, Failure> {
    let late = |_| Err((StoreError::Timeout, String::from("no answer to CLUSTER SLOTS")));
    timeout(ANSWER_WITHIN, answer).await.unwrap_or_else(late)
}

async fn slots_of_stranger(info: ConnectionInfo, host: String) -> Result<View, Failure> {
    let connection = connect(info).await.map_err(|error| (StoreError::of(&error), describe(&error)))?;
    slots(connection, host).await
}

async fn connect(info: ConnectionInfo) -> RedisResult<MultiplexedConnection> {
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(ANSWER_WITHIN))
        .set_response_timeout(Some(ANSWER_WITHIN));
    redis::Client::open(info)?.get_multiplexed_async_connection_with_config(&config).await
}

async fn slots(mut connection: MultiplexedConnection, host: String) -> Result<View, Failure> {
    let reply = connection.send_packed_command(redis::cmd("CLUSTER").arg("SLOTS")).await;
    let reply =
        reply.and_then(redis::Value::extract_error).map_err(|error| (StoreError::of(&error), describe(&error)))?;
    view(&reply, &host).ok_or_else(|| (StoreError::ClusterDown, String::from("the node knows of no slots")))
}
