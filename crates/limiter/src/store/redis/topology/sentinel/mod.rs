//! Discovery of the primary through Sentinels.
//!
//! One task for each client asks all Sentinels: once a second, five times a second while there is no connection, and at
//! once when a connection was lost. Polling finds a new primary as soon as any reachable Sentinel knows it. A
//! subscription would stay silent while its own Sentinel is cut off together with the old primary. So an old primary that
//! still takes writes is left within [`WATCH_INTERVAL`] and the time of two replies (1.6 s at most with the default
//! timeout). If the gateway reaches only Sentinels with outdated information, `min-replicas-to-write` protects the data.
//!
//! Replies of Sentinels are verified: [`candidates`] ranks the servers, and a server that does not report that it is a
//! primary (`ROLE`) is not used. Without reachable Sentinels the current primary stays in use.
//!
//! Only the configured Sentinels are queried: addresses that they report may not be reachable from here.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{ErrorKind, RedisError, RedisResult, Value, from_redis_value};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::node::{Node, PublishedAddress};
use crate::store::redis::connection::{
    CONNECT_TIMEOUT, ConnectionContext, Connector, check_primary, open, pipelined_config,
};
use crate::store::redis::connection_settings::{HostPort, RedisSettings, RedisSettingsError, Sentinel};
use crate::store::redis::error::{StoreError, describe};
use crate::store::redis::random::jittered;

/// Time between two rounds while a connection is live, and while none is.
const WATCH_INTERVAL: Duration = Duration::from_secs(1);
const SEARCH_INTERVAL: Duration = Duration::from_millis(200);

/// Least deadline for a reply of a Sentinel or of a named server. It is longer if decisions may take longer, up to a
/// second.
const MIN_REPLY_TIMEOUT: Duration = Duration::from_millis(300);

/// A Sentinel, and the connection of the last query.
struct SentinelClient {
    at: HostPort,
    connection: Option<MultiplexedConnection>,
}

/// Server that a Sentinel names as the primary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NamedPrimary {
    pub(super) server: HostPort,
    /// Configuration epoch, which grows with every failover (Sentinel documentation, "Configuration epochs").
    epoch: u64,
}

/// Watches the Sentinels and publishes the primary's address.
pub(crate) struct SentinelMonitor {
    master: String,
    sentinels: Vec<HostPort>,
    sentinel_connector: Connector,
    reply_timeout: Duration,
    address: Arc<PublishedAddress>,
}

/// An error with a message that names its origin.
type Reason = (StoreError, String);

impl SentinelMonitor {
    pub(crate) fn new(settings: &RedisSettings, sentinel: &Sentinel) -> Result<Self, RedisSettingsError> {
        if sentinel.nodes.is_empty() || sentinel.master.is_empty() {
            let text = "the settings of Sentinels need the name of a `master`, and `nodes` to ask for it";
            return Err(RedisSettingsError::Unusable(text.into()));
        }
        Ok(Self {
            master: sentinel.master.clone(),
            sentinels: sentinel.nodes.clone(),
            sentinel_connector: Connector::for_sentinels(settings, sentinel),
            reply_timeout: settings.timeout.clamp(MIN_REPLY_TIMEOUT, CONNECT_TIMEOUT),
            address: Arc::default(),
        })
    }

    /// Returns the address that the monitor publishes.
    pub(crate) fn address(&self) -> Arc<PublishedAddress> {
        Arc::clone(&self.address)
    }

    /// Watches the Sentinels on behalf of `node`.
    pub(crate) async fn run(self: Arc<Self>, context: Arc<ConnectionContext>, node: Arc<Node>) {
        let mut clients: Vec<_> = self.sentinels.iter().map(|at| SentinelClient::new(at.clone())).collect();
        let mut current = None;
        loop {
            let (replies, reasons) = self.ask_all(&mut clients).await;
            let in_use = node.live_connections() > 0;
            if let Err((kind, reason)) = self.update(&context.connector, &mut current, &replies, reasons, in_use).await
                && !in_use
            {
                node.record_connect_error(kind, &reason);
            }
            let pause = if in_use { WATCH_INTERVAL } else { SEARCH_INTERVAL };
            let _ = timeout(jittered(pause), self.address.refresh_requested()).await;
        }
    }

    /// Asks all Sentinels at once.
    async fn ask_all(self: &Arc<Self>, clients: &mut Vec<SentinelClient>) -> (Vec<NamedPrimary>, Vec<Reason>) {
        let mut queries = JoinSet::new();
        for mut client in clients.drain(..) {
            let monitor = Arc::clone(self);
            queries.spawn(async move {
                let query = client.primary(&monitor.sentinel_connector, &monitor.master);
                let reply = timeout(monitor.reply_timeout, query).await;
                if !matches!(reply, Ok(Ok(_))) {
                    client.disconnect();
                }
                (client, reply)
            });
        }
        let (mut replies, mut reasons) = (Vec::new(), Vec::new());
        while let Some(Ok((client, reply))) = queries.join_next().await {
            match reply {
                Ok(Ok(vote)) => replies.push(vote),
                Ok(Err(error)) => reasons.push(reason("sentinel", &client.at, &error)),
                Err(_) => reasons.push((StoreError::Timeout, format!("sentinel {} does not reply", client.at))),
            }
            clients.push(client);
        }
        (replies, reasons)
    }

    /// Finds the primary and publishes it if it changed. A server `in_use` reported its role when it was connected to.
    async fn update(
        &self,
        connector: &Connector,
        current: &mut Option<NamedPrimary>,
        replies: &[NamedPrimary],
        mut reasons: Vec<Reason>,
        in_use: bool,
    ) -> Result<(), Reason> {
        for candidate in candidates(replies, self.sentinels.len(), current.as_ref()) {
            let is_current = current.as_ref().is_some_and(|current| current.server == candidate.server);
            if !(is_current && in_use)
                && let Err(reason) = self.verify(connector, &candidate.server).await
            {
                reasons.insert(0, reason);
                continue;
            }
            if !is_current {
                tracing::info!(node = self.master, server = %candidate.server, "redis primary found");
                self.address.publish(candidate.server.clone());
            }
            *current = Some(candidate);
            return Ok(());
        }
        // An error reply says more than a timeout.
        reasons.sort_by_key(|(kind, _)| matches!(kind, StoreError::Timeout | StoreError::Disconnected));
        Err(reasons.into_iter().next().unwrap_or((StoreError::Disconnected, "no sentinel replies".into())))
    }

    async fn verify(&self, connector: &Connector, server: &HostPort) -> Result<(), Reason> {
        let role = async {
            let mut connection = open(&connector.connection_info(server)?, pipelined_config()).await?;
            check_primary(&mut connection).await
        };
        match timeout(self.reply_timeout, role).await {
            Ok(role) => role.map_err(|error| reason("server", server, &error)),
            Err(_) => Err((StoreError::Timeout, format!("server {server} does not reply"))),
        }
    }
}

fn reason(origin: &str, at: &HostPort, error: &RedisError) -> Reason {
    (StoreError::classify(error), format!("{origin} {at}: {}", describe(error)))
}

impl SentinelClient {
    fn new(at: HostPort) -> Self {
        Self { at, connection: None }
    }

    /// Closes the connection, so that a late reply is not taken for the next query's.
    fn disconnect(&mut self) {
        self.connection = None;
    }

    /// Asks for the primary of `master`. Replaces a connection that broke since the last query.
    async fn primary(&mut self, connector: &Connector, master: &str) -> RedisResult<NamedPrimary> {
        if let Some(connection) = &mut self.connection
            && let Ok(vote) = query(connection, master).await
        {
            return Ok(vote);
        }
        let connection = open(&connector.connection_info(&self.at)?, pipelined_config()).await?;
        query(self.connection.insert(connection), master).await
    }
}

/// Asks for the primary of `master`.
pub(super) async fn query(connection: &mut MultiplexedConnection, master: &str) -> RedisResult<NamedPrimary> {
    let mut commands = redis::pipe();
    // The address comes first: during a failover it is that of the server being promoted.
    commands.cmd("SENTINEL").arg("GET-MASTER-ADDR-BY-NAME").arg(master);
    commands.cmd("SENTINEL").arg("MASTER").arg(master);
    let mut replies = connection.send_packed_commands(&commands, 0, 2).await?.into_iter();
    let mut next = || replies.next().unwrap_or(Value::Nil).extract_error();
    let (address, fields) = (next()?, next()?);
    let (host, port) = from_redis_value(address)?;
    let fields: HashMap<String, String> = from_redis_value(fields)?;
    let epoch = fields.get("config-epoch").and_then(|epoch| epoch.parse().ok());
    let epoch = epoch.ok_or((ErrorKind::UnexpectedReturnType, "the reply has no `config-epoch`"))?;
    Ok(NamedPrimary { server: HostPort { host, port }, epoch })
}

/// Servers that may be the primary, best first: by latest epoch, then by the number of Sentinels that name them.
///
/// A failover needs the votes of a majority of Sentinels. If a majority replied, one of them knows the last failover, and
/// an epoch behind `current`, the current primary, means that the Sentinels were set up anew. A minority may be cut off
/// together with an old primary, so its reply counts only if its epoch is not older; the current primary stays a
/// candidate then.
fn candidates(replies: &[NamedPrimary], sentinels: usize, current: Option<&NamedPrimary>) -> Vec<NamedPrimary> {
    let is_majority = replies.len() * 2 > sentinels;
    let least_epoch = current.filter(|_| !is_majority).map_or(0, |current| current.epoch);
    let mut counted: Vec<(&NamedPrimary, usize)> = Vec::new();
    for vote in replies.iter().filter(|vote| vote.epoch >= least_epoch) {
        match counted.iter_mut().find(|(other, _)| *other == vote) {
            Some((_, votes)) => *votes += 1,
            None => counted.push((vote, 1)),
        }
    }
    if !is_majority && let Some(current) = current {
        counted.push((current, 0));
    }
    counted.sort_by_key(|(candidate, votes)| std::cmp::Reverse((candidate.epoch, *votes)));
    let mut ranked: Vec<NamedPrimary> = Vec::new();
    for (candidate, _) in counted {
        if ranked.iter().all(|other| other.server != candidate.server) {
            ranked.push(candidate.clone());
        }
    }
    ranked
}

#[cfg(test)]
mod tests;
