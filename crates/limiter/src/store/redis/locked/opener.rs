//! Connections for one decision at a time.

use std::sync::Arc;

use deadpool::managed::{Manager, Metrics, RecycleError, RecycleResult};
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, RedisError};

use crate::store::redis::client::RedisClient;
use crate::store::redis::connect::{check_primary, open};
use crate::store::redis::dial::Dial;
use crate::store::redis::node::Node;
use crate::store::redis::route::Route;

/// Connects to the server of a client, wherever that is at the time.
pub(super) struct Opener {
    dial: Arc<Dial>,
    node: Arc<Node>,
}

/// A connection, and whether it leads where it should.
pub(super) struct Held {
    pub(super) connection: MultiplexedConnection,
    route: Route,
}

impl Opener {
    pub(super) fn new(client: &RedisClient, node: Arc<Node>) -> Self {
        Self { dial: Arc::clone(&client.shared().dial), node }
    }
}

impl Manager for Opener {
    type Type = Held;
    type Error = RedisError;

    async fn create(&self) -> Result<Held, RedisError> {
        // Decisions have a deadline of their own.
        let config = AsyncConnectionConfig::new().set_connection_timeout(None).set_response_timeout(None);
        let mut route = Route::to(&self.node.address);
        let mut connection = open(&route.info(&self.dial).await?, config).await?;
        if route.leads_to_primary() {
            check_primary(&mut connection).await?;
        }
        Ok(Held { connection, route })
    }

    /// A primary that is one no more answers as well.
    async fn recycle(&self, held: &mut Held, _: &Metrics) -> RecycleResult<RedisError> {
        if held.route.has_moved() {
            return Err(RecycleError::message("the primary is somewhere else"));
        }
        redis::pipe().cmd("UNWATCH").cmd("PING").exec_async(&mut held.connection).await?;
        Ok(())
    }
}
