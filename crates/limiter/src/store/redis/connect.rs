//! How a connection is made.

use std::time::Duration;

use deadpool::managed;
use deadpool_redis::Manager;
use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, ConnectionInfo, ErrorKind, PushInfo, PushKind, RedisError, RedisResult, ServerErrorKind,
    Value,
};

use super::error::StoreError;
use super::hot::CHANNEL;
use super::script::Script;

/// The longest time in which a connection must be made, login and script included.
pub(super) const CONNECT_WITHIN: Duration = Duration::from_secs(1);

/// Calls that may queue for a connection.
const QUEUE: usize = 4096;

/// Bytes that are gathered into one write.
const WRITE_BYTES: usize = 64 * 1024;

/// What a connection tells unasked.
pub(super) enum News<'n> {
    /// It closed.
    Lost,
    /// Something was given back to the key of that name.
    Returned(&'n [u8]),
}

impl<'n> News<'n> {
    fn of(push: &'n PushInfo) -> Option<Self> {
        match (&push.kind, push.data.as_slice()) {
            (PushKind::Disconnection, _) => Some(Self::Lost),
            (PushKind::Message, [_, Value::BulkString(key)]) => Some(Self::Returned(key)),
            _ => None,
        }
    }
}

/// Connects, logs in and loads the scripts for one rule; those for several are loaded when they are first asked for.
/// With `only_primary`, a server that says that it is none is an error. `on_news` is called with what the connection
/// tells later (RESP3 only). Also returns why the server runs no scripts, if it does not: it is of use still, to those
/// who need none.
pub(super) async fn connect(
    info: &ConnectionInfo,
    only_primary: bool,
    on_news: impl Fn(News<'_>) + Send + Sync + 'static,
) -> RedisResult<(MultiplexedConnection, Option<RedisError>)> {
    let mut config = config();
    let listens = info.redis_settings().protocol() != redis::ProtocolVersion::RESP2;
    if listens {
        config = config.set_push_sender(move |push: PushInfo| {
            if let Some(news) = News::of(&push) {
                on_news(news);
            }
            Ok::<(), std::convert::Infallible>(())
        });
    }
    let mut connection = open(info, config).await?;
    if only_primary {
        check_primary(&mut connection).await?;
    }
    if listens && let Err(error) = connection.subscribe(CHANNEL).await {
        // What others give back is noticed later then.
        tracing::debug!(redis = %info.addr(), %error, "cannot listen to `{CHANNEL}`");
    }
    let mut load = redis::pipe();
    for script in Script::all_single() {
        load.add_command(script.load());
    }
    for reply in connection.send_packed_commands(&load, 0, load.len()).await? {
        match reply.extract_error() {
            Err(error) if matches!(StoreError::of(&error), StoreError::NoScripts | StoreError::NoPerm) => {
                return Ok((connection, Some(error)));
            }
            reply => reply?,
        };
    }
    Ok((connection, None))
}

/// Connects and logs in, no more.
pub(super) async fn open(info: &ConnectionInfo, config: AsyncConnectionConfig) -> RedisResult<MultiplexedConnection> {
    // Of the pool only its connection factory is used: a checkout would cost each decision a PING.
    let manager = Manager::new_with_config(info.clone(), config)?;
    managed::Manager::create(&manager).await
}

/// How connections are tuned.
pub(super) fn config() -> AsyncConnectionConfig {
    // Attempts and calls have deadlines of their own, which cover queueing too.
    AsyncConnectionConfig::new()
        .set_connection_timeout(None)
        .set_response_timeout(None)
        .set_pipeline_buffer_size(QUEUE)
        .set_write_backpressure_boundary(WRITE_BYTES)
}

/// Fails unless the server says that it is a primary.
pub(super) async fn check_primary(connection: &mut MultiplexedConnection) -> RedisResult<()> {
    let role: Vec<Value> = redis::cmd("ROLE").query_async(connection).await?;
    match role.first() {
        Some(Value::BulkString(role)) if role == b"master" => Ok(()),
        _ => Err((ErrorKind::Server(ServerErrorKind::ReadOnly), "it says that it is no primary").into()),
    }
}
