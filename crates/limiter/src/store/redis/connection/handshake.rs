//! Establishing connections.

use std::time::Duration;

use deadpool::managed;
use deadpool_redis::Manager;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, ConnectionInfo, ErrorKind, PushInfo, RedisResult, ServerErrorKind, Value};

/// Deadline for a connection, including authentication.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// Calls that may queue for a connection.
const QUEUE: usize = 4096;

/// Bytes collected into one write.
const WRITE_BYTES: usize = 64 * 1024;

/// Connects, authenticates and subscribes to `channel`. Scripts are loaded on first use.
///
/// `only_primary` rejects replicas. `on_push` receives push messages (RESP3 only).
pub(crate) async fn connect(
    info: &ConnectionInfo,
    only_primary: bool,
    channel: &str,
    on_push: impl Fn(&PushInfo) + Send + Sync + 'static,
) -> RedisResult<MultiplexedConnection> {
    let mut config = pipelined_config();
    let receives_push = info.redis_settings().protocol() != redis::ProtocolVersion::RESP2;
    if receives_push {
        config = config.set_push_sender(move |push: PushInfo| {
            on_push(&push);
            Ok::<(), std::convert::Infallible>(())
        });
    }
    let mut connection = open(info, config).await?;
    if only_primary {
        check_primary(&mut connection).await?;
    }
    if !receives_push && info.redis_settings().password().is_none() {
        // Nothing else is sent yet: a proxy accepts connections although its Redis is down.
        redis::cmd("PING").exec_async(&mut connection).await?;
    }
    if receives_push && let Err(error) = connection.subscribe(channel).await {
        // Cached denials then end by their own deadline.
        tracing::debug!(node = %info.addr(), channel, %error, "redis subscription failed");
    }
    Ok(connection)
}

/// Connects and authenticates.
pub(crate) async fn open(info: &ConnectionInfo, config: AsyncConnectionConfig) -> RedisResult<MultiplexedConnection> {
    // Only the pool's connection factory is used: a checkout would cost each decision a PING.
    let manager = Manager::new_with_config(info.clone(), config)?;
    managed::Manager::create(&manager).await
}

/// Configuration of a pipelined connection. It has no timeouts: attempts and calls have deadlines that cover queueing.
pub(crate) fn pipelined_config() -> AsyncConnectionConfig {
    AsyncConnectionConfig::new()
        .set_connection_timeout(None)
        .set_response_timeout(None)
        .set_pipeline_buffer_size(QUEUE)
        .set_write_backpressure_boundary(WRITE_BYTES)
}

/// Fails unless the server reports that it is a primary.
pub(crate) async fn check_primary(connection: &mut MultiplexedConnection) -> RedisResult<()> {
    let role: Vec<Value> = redis::cmd("ROLE").query_async(connection).await?;
    match role.first() {
        Some(Value::BulkString(role)) if role == b"master" => Ok(()),
        _ => Err((ErrorKind::Server(ServerErrorKind::ReadOnly), "the server reports that it is not a primary").into()),
    }
}
