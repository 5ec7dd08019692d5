//! Sending of one command, with commands that must precede it in the same write.

use std::sync::atomic::{AtomicU64, Ordering};

use redis::aio::MultiplexedConnection;
use redis::{Arg, Cmd, ErrorKind, Pipeline, RedisError, ServerErrorKind, Value};

use crate::store::redis::script::Script;

/// Time in milliseconds for which an empty string stands for a missing key. Longer than a call may take.
const PLACEHOLDER_TTL_MS: u64 = 2_000;

/// Sends `cmd` over `connection`. If it is an `EVALSHA` of a `script` that the node does not know, loads the script and
/// sends it again.
pub(crate) async fn send_script(
    connection: &mut MultiplexedConnection,
    misses: &AtomicU64,
    script: Option<&Script>,
    cmd: &Cmd,
    asking: bool,
) -> Result<Value, RedisError> {
    let reply = send(connection, None, cmd, asking).await;
    match (script, reply) {
        (Some(script), Err(error)) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => {
            // Redis restarted behind a proxy, a replica took over, or scripts were flushed. Nothing has run yet.
            misses.fetch_add(1, Ordering::Relaxed);
            // In one write with the call: scripts may be flushed again between two writes.
            send(connection, Some(script.load()), cmd, asking).await
        }
        (_, reply) => reply,
    }
}

/// Sends `cmd` behind `before` in one write. `asking` adds `ASKING` to the same write: the connection is shared, and
/// `ASKING` applies to the next command on it.
pub(crate) async fn send(
    connection: &mut MultiplexedConnection,
    before: Option<Cmd>,
    cmd: &Cmd,
    asking: bool,
) -> Result<Value, RedisError> {
    let asking = asking.then(|| redis::cmd("ASKING"));
    if before.is_none() && asking.is_none() {
        return connection.send_packed_command(cmd).await.and_then(top_level_error);
    }
    let mut pipeline = Pipeline::with_capacity(3);
    for cmd in before.into_iter().chain(asking) {
        pipeline.add_command(cmd);
    }
    pipeline.add_command(cmd.clone());
    let mut last = Value::Nil;
    for reply in connection.send_packed_commands(&pipeline, 0, pipeline.len()).await? {
        last = top_level_error(reply)?;
    }
    Ok(last)
}

/// Turns an error reply into an error. Nested errors belong to single calls of a batch.
fn top_level_error(reply: Value) -> Result<Value, RedisError> {
    match reply {
        Value::ServerError(error) => Err(error.into()),
        reply => Ok(reply),
    }
}

/// Creates the missing keys of `cmd`, an `EVALSHA`, as empty strings on a node that imports their slot.
///
/// Such a node runs no command with several keys unless it has all of them. So a new bucket with two keys could not be
/// created while its slot migrates. The exporting node has replied that it has none of them, and creates none.
pub(crate) async fn create_missing_keys(connection: &mut MultiplexedConnection, cmd: &Cmd) -> Result<(), RedisError> {
    let args: Vec<&[u8]> = cmd
        .args_iter()
        .filter_map(|arg| match arg {
            Arg::Simple(arg) => Some(arg),
            _ => None,
        })
        .collect();
    let count = args.get(2).and_then(|count| std::str::from_utf8(count).ok()?.parse().ok());
    let mut pipeline = redis::pipe();
    for key in args.into_iter().skip(3).take(count.unwrap_or_default()) {
        pipeline.add_command(redis::cmd("ASKING"));
        pipeline.cmd("SET").arg(key).arg("").arg("NX").arg("PX").arg(PLACEHOLDER_TTL_MS);
    }
    // The call is sent again and shows which of these failed.
    connection.send_packed_commands(&pipeline, 0, pipeline.len()).await.map(drop)
}
