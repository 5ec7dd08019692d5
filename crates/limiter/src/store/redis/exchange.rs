//! Words over a connection: a command, and what has to go before it in the same write.

use std::sync::atomic::{AtomicU64, Ordering};

use redis::aio::MultiplexedConnection;
use redis::{Arg, Cmd, ErrorKind, Pipeline, RedisError, ServerErrorKind, Value};

use super::script::Script;

/// How long an empty string stands for a key that is about to be written: longer than a call may take.
const PREPARED_FOR_MS: u64 = 2_000;

/// Sends `cmd` over `connection`; if it is an `EVALSHA` of a `script` that the node does not know, once more after that.
pub(super) async fn exchange(
    connection: &mut MultiplexedConnection,
    misses: &AtomicU64,
    script: Option<&Script>,
    cmd: &Cmd,
    asking: bool,
) -> Result<Value, RedisError> {
    let reply = write(connection, None, cmd, asking).await;
    match (script, reply) {
        (Some(script), Err(error)) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => {
            // Redis was restarted behind a proxy, a replica took over, or scripts were flushed. Nothing has run yet.
            misses.fetch_add(1, Ordering::Relaxed);
            // In one write with the call, since somebody who flushes all the time would find the moment between.
            write(connection, Some(script.load()), cmd, asking).await
        }
        (_, reply) => reply,
    }
}

/// Sends `cmd`, with what has to go `before` it. `asking` goes along in the same write, since the connection is shared and
/// the word holds for the command behind it.
pub(super) async fn write(
    connection: &mut MultiplexedConnection,
    before: Option<Cmd>,
    cmd: &Cmd,
    asking: bool,
) -> Result<Value, RedisError> {
    let asking = asking.then(|| redis::cmd("ASKING"));
    if before.is_none() && asking.is_none() {
        return connection.send_packed_command(cmd).await.and_then(outermost);
    }
    let mut pipeline = Pipeline::with_capacity(3);
    for word in before.into_iter().chain(asking) {
        pipeline.add_command(word);
    }
    pipeline.add_command(cmd.clone());
    let mut last = Value::Nil;
    for reply in connection.send_packed_commands(&pipeline, 0, pipeline.len()).await? {
        last = outermost(reply)?;
    }
    Ok(last)
}

/// Errors further in are those of one of many.
fn outermost(reply: Value) -> Result<Value, RedisError> {
    match reply {
        Value::ServerError(error) => Err(error.into()),
        reply => Ok(reply),
    }
}

/// Writes the keys of `cmd`, an `EVALSHA`, as empty strings where they are missing, to a node that imports their slot.
///
/// Such a node runs nothing on several keys unless it has all of them, so that a new bucket of two keys could not arise as
/// long as its slot is being moved. The node that the slot comes from has said that it has none, and makes no new ones.
pub(super) async fn prepare(connection: &mut MultiplexedConnection, cmd: &Cmd) -> Result<(), RedisError> {
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
        pipeline.cmd("SET").arg(key).arg("").arg("NX").arg("PX").arg(PREPARED_FOR_MS);
    }
    // What does not work shows when the call is sent again.
    connection.send_packed_commands(&pipeline, 0, pipeline.len()).await.map(drop)
}
