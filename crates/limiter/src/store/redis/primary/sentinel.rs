//! One Sentinel.

use std::collections::HashMap;

use redis::aio::MultiplexedConnection;
use redis::{ErrorKind, RedisResult, Value, from_redis_value};

use super::candidates::Named;
use crate::store::redis::connect::{config, open};
use crate::store::redis::dial::Dial;
use crate::store::redis::settings::HostPort;

/// A Sentinel, and the connection over which it was asked last.
pub(super) struct SentinelLink {
    pub(super) at: HostPort,
    kept: Option<MultiplexedConnection>,
}

impl SentinelLink {
    pub(super) fn new(at: HostPort) -> Self {
        Self { at, kept: None }
    }

    /// Closes the connection: an answer to an old question must not be taken for one to the next.
    pub(super) fn forget(&mut self) {
        self.kept = None;
    }

    /// Asks where `master` is. A connection that broke since the last time is replaced.
    pub(super) async fn ask(&mut self, dial: &Dial, master: &str) -> RedisResult<Named> {
        if let Some(connection) = &mut self.kept
            && let Ok(named) = ask(connection, master).await
        {
            return Ok(named);
        }
        let connection = self.kept.insert(open(&dial.to(&self.at)?, config()).await?);
        ask(connection, master).await
    }
}

async fn ask(connection: &mut MultiplexedConnection, master: &str) -> RedisResult<Named> {
    let mut questions = redis::pipe();
    // The address first: during a failover it is that of the server which is being made the primary.
    questions.cmd("SENTINEL").arg("GET-MASTER-ADDR-BY-NAME").arg(master);
    questions.cmd("SENTINEL").arg("MASTER").arg(master);
    let mut replies = connection.send_packed_commands(&questions, 0, 2).await?.into_iter();
    let mut next = || replies.next().unwrap_or(Value::Nil).extract_error();
    let (address, fields) = (next()?, next()?);
    let (host, port) = from_redis_value(address)?;
    let fields: HashMap<String, String> = from_redis_value(fields)?;
    let epoch = fields.get("config-epoch").and_then(|epoch| epoch.parse().ok());
    let epoch = epoch.ok_or((ErrorKind::UnexpectedReturnType, "no `config-epoch` in the answer"))?;
    Ok(Named { server: HostPort { host, port }, epoch })
}
