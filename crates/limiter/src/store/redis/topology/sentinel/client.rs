//! Client of one Sentinel.

use std::collections::HashMap;

use redis::aio::MultiplexedConnection;
use redis::{ErrorKind, RedisResult, Value, from_redis_value};

use super::candidates::NamedPrimary;
use crate::store::redis::connection::{Connector, open, pipelined_config};
use crate::store::redis::settings::HostPort;

/// A Sentinel, and the connection of the last query.
pub(super) struct SentinelClient {
    pub(super) at: HostPort,
    connection: Option<MultiplexedConnection>,
}

impl SentinelClient {
    pub(super) fn new(at: HostPort) -> Self {
        Self { at, connection: None }
    }

    /// Closes the connection, so that a late reply is not taken for the next query's.
    pub(super) fn disconnect(&mut self) {
        self.connection = None;
    }

    /// Asks for the primary of `master`. Replaces a connection that broke since the last query.
    pub(super) async fn primary(&mut self, connector: &Connector, master: &str) -> RedisResult<NamedPrimary> {
        if let Some(connection) = &mut self.connection
            && let Ok(named) = query(connection, master).await
        {
            return Ok(named);
        }
        let connection = open(&connector.connection_info(&self.at)?, pipelined_config()).await?;
        query(self.connection.insert(connection), master).await
    }
}

async fn query(connection: &mut MultiplexedConnection, master: &str) -> RedisResult<NamedPrimary> {
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
