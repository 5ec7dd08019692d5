//! How a connection is made.

use std::time::Duration;

use deadpool::managed;
use deadpool_redis::Manager;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, ConnectionInfo, PushInfo, PushKind, RedisError};

use super::error::StoreError;
use super::script::Script;

/// The longest time in which a connection must be made, login and script included.
pub(super) const CONNECT_WITHIN: Duration = Duration::from_secs(1);

/// Calls that may queue for a connection.
const QUEUE: usize = 4096;

/// Bytes that are gathered into one write.
const WRITE_BYTES: usize = 64 * 1024;

/// Connects, logs in and loads the scripts for one rule; those for several are loaded when they are first asked for.
/// `on_disconnect` is called when the connection closes later (RESP3 only). Also returns whether the server runs
/// scripts: one that does not is of use still, to those who need none.
pub(super) async fn connect(
    info: &ConnectionInfo,
    on_disconnect: impl Fn() + Send + Sync + 'static,
) -> Result<(MultiplexedConnection, bool), RedisError> {
    // Calls have deadlines of their own, which cover queueing too.
    let mut config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(CONNECT_WITHIN))
        .set_response_timeout(None)
        .set_pipeline_buffer_size(QUEUE)
        .set_write_backpressure_boundary(WRITE_BYTES);
    if info.redis_settings().protocol() != redis::ProtocolVersion::RESP2 {
        config = config.set_push_sender(move |push: PushInfo| {
            if push.kind == PushKind::Disconnection {
                on_disconnect();
            }
            Ok::<(), std::convert::Infallible>(())
        });
    }
    // Of the pool only its connection factory is used: a checkout would cost each decision a PING.
    let manager = Manager::new_with_config(info.clone(), config)?;
    let mut connection = managed::Manager::create(&manager).await?;
    let mut load = redis::pipe();
    for script in Script::all_single() {
        load.add_command(script.load());
    }
    for reply in connection.send_packed_commands(&load, 0, load.len()).await? {
        match reply.extract_error() {
            Err(error) if StoreError::of(&error) == StoreError::NoScripts => return Ok((connection, false)),
            reply => reply?,
        };
    }
    Ok((connection, true))
}
