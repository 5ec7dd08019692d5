//! Pooled connections, each for one decision at a time.

use std::sync::Arc;

use deadpool::managed::{Manager, Metrics, RecycleError, RecycleResult};
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, RedisError};

use crate::store::redis::client::RedisClient;
use crate::store::redis::connection::{ConnectionContext, check_primary, open};
use crate::store::redis::topology::{AddressWatch, Node};

/// Connects to the server of a client, at its current address.
pub(super) struct ConnectionFactory {
    context: Arc<ConnectionContext>,
    node: Arc<Node>,
}

/// A connection, and the address that it leads to.
pub(super) struct PooledConnection {
    pub(super) connection: MultiplexedConnection,
    address: AddressWatch,
}

impl ConnectionFactory {
    pub(super) fn new(client: &RedisClient, node: Arc<Node>) -> Self {
        Self { context: Arc::clone(client.context()), node }
    }
}

impl Manager for ConnectionFactory {
    type Type = PooledConnection;
    type Error = RedisError;

    async fn create(&self) -> Result<PooledConnection, RedisError> {
        // No timeouts: decisions have a deadline of their own.
        let config = AsyncConnectionConfig::new().set_connection_timeout(None).set_response_timeout(None);
        let mut address = self.node.address.watch();
        let info = address.connection_info(&self.context.connector).await?;
        let mut connection = open(&info, config).await?;
        if address.requires_primary() {
            check_primary(&mut connection).await?;
        }
        Ok(PooledConnection { connection, address })
    }

    /// A demoted primary replies to `PING` as well, so the address is checked first.
    async fn recycle(&self, pooled: &mut PooledConnection, _: &Metrics) -> RecycleResult<RedisError> {
        if pooled.address.has_changed() {
            return Err(RecycleError::message("the primary has another address"));
        }
        redis::pipe().cmd("UNWATCH").cmd("PING").exec_async(&mut pooled.connection).await?;
        Ok(())
    }
}
