//! Batching: calls that wait for a connection at the same moment are sent as one call.
//!
//! Half of a script's cost in Redis is its invocation: parsing, lookup, filling `KEYS` and `ARGV`, reading the clock. So
//! one task for each connection collects calls while other tasks run, and runs one script for many callers, each decided
//! as if it were alone. The batcher adds no delay: a single call is sent at once, unchanged.
//!
//! Each caller keeps its own deadline and gets its own reply or error; an error of one key does not affect the others.
//! In a cluster calls of different keys belong to different slots, so there is no batching.

use std::sync::Arc;

use redis::aio::MultiplexedConnection;
use redis::{Arg, Cmd, RedisError, Value};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout_at};

use super::send::send_script;
use crate::store::redis::command::{MAX_WEIGHT, ScriptCall};
use crate::store::redis::error::StoreError;
use crate::store::redis::script::Script;
use crate::store::redis::stats::RedisStats;

/// Most calls in one batch. More would save little, and other clients of Redis wait meanwhile: half a millisecond. Calls
/// that may take longer have a higher weight, and their batches are smaller.
const MAX_CALLS: usize = 64;

/// Calls that may queue.
const QUEUE: usize = 4096;

/// Queue of a connection's calls.
#[derive(Clone)]
pub(crate) struct Batcher(mpsc::Sender<QueuedCall>);

struct QueuedCall {
    call: Arc<ScriptCall>,
    deadline: Instant,
    reply: oneshot::Sender<Result<Value, RedisError>>,
}

/// Task that sends batches while a [`Batcher`] exists.
struct BatchSender {
    connection: MultiplexedConnection,
    stats: Arc<RedisStats>,
}

// === impl Batcher ===

impl Batcher {
    /// Starts the task in the current runtime. It ends with the last clone of the batcher.
    pub(crate) fn start(connection: MultiplexedConnection, stats: Arc<RedisStats>) -> Self {
        let (queue, calls) = mpsc::channel(QUEUE);
        tokio::spawn(BatchSender { connection, stats }.run(calls));
        Self(queue)
    }

    /// Queues a call and waits for its reply; the caller stops waiting at `deadline`.
    pub(crate) async fn run(&self, call: Arc<ScriptCall>, deadline: Instant) -> Result<Value, RedisError> {
        let (reply, replied) = oneshot::channel();
        let closed = || RedisError::from(std::io::Error::from(std::io::ErrorKind::BrokenPipe));
        self.0.send(QueuedCall { call, deadline, reply }).await.map_err(|_| closed())?;
        match replied.await {
            Ok(reply) => reply,
            // The sending task stopped at the deadline, as the caller is about to: the connection is not broken.
            Err(_) if Instant::now() >= deadline => std::future::pending().await,
            Err(_) => Err(closed()),
        }
    }
}

// === impl BatchSender ===

impl BatchSender {
    async fn run(self, mut queue: mpsc::Receiver<QueuedCall>) {
        let mut calls = Vec::with_capacity(MAX_CALLS);
        while queue.recv_many(&mut calls, MAX_CALLS).await > 0 {
            // A dropped call must not be charged.
            calls.retain(|call| !call.reply.is_closed());
            while let Some(first) = calls.first() {
                let script = Arc::clone(&first.call.script);
                let counts = first.call.counts;
                let mut room = MAX_WEIGHT;
                let alike = |one: &mut QueuedCall| {
                    let is_alike = Arc::ptr_eq(&one.call.script, &script) && one.call.counts == counts;
                    let rest = room.checked_sub(one.call.weight).filter(|_| is_alike);
                    room = rest.unwrap_or(if is_alike { 0 } else { room });
                    rest.is_some()
                };
                self.send(&script, calls.extract_if(.., alike).collect());
            }
        }
    }

    /// Sends calls of one script. A task of their own waits for the replies.
    fn send(&self, script: &Script, calls: Vec<QueuedCall>) {
        let (connection, stats) = (self.connection.clone(), Arc::clone(&self.stats));
        let Some(deadline) = calls.iter().map(|call| call.deadline).max() else { return };
        stats.call_sizes.observe(calls.iter().map(|call| call.call.requests).sum());
        if calls.len() == 1 {
            tokio::spawn(timeout_at(deadline, send_each(connection, stats, calls)));
            return;
        }
        tokio::spawn(timeout_at(deadline, send_batch(connection, stats, Arc::clone(script.batched()), calls)));
    }
}

async fn send_each(mut connection: MultiplexedConnection, stats: Arc<RedisStats>, calls: Vec<QueuedCall>) {
    for QueuedCall { call, reply, .. } in calls {
        let misses = &stats.script_misses;
        let _ = reply.send(send_script(&mut connection, misses, Some(&call.script), &call.cmd, false).await);
    }
}

async fn send_batch(
    mut connection: MultiplexedConnection,
    stats: Arc<RedisStats>,
    batched: Arc<Script>,
    calls: Vec<QueuedCall>,
) {
    let cmd = batch_command(&batched, &calls);
    match send_script(&mut connection, &stats.script_misses, Some(&batched), &cmd, false).await {
        Ok(Value::Array(replies)) if replies.len() == calls.len() => {
            for (QueuedCall { reply, .. }, value) in calls.into_iter().zip(replies) {
                let _ = reply.send(value.extract_error());
            }
        }
        // Nothing has run. The user may lack a permission for the key of one caller only.
        Err(error) if StoreError::classify(&error) == StoreError::NoPerm => {
            for call in calls {
                let (deadline, connection, stats) = (call.deadline, connection.clone(), Arc::clone(&stats));
                stats.call_sizes.observe(call.call.requests);
                tokio::spawn(timeout_at(deadline, send_each(connection, stats, vec![call])));
            }
        }
        // Callers treat a nil as an invalid reply.
        other => calls.into_iter().for_each(|call| drop(call.reply.send(other.clone().map(|_| Value::Nil)))),
    }
}

/// `EVALSHA batched keys [key …] keys-each arguments-each [argument …]`
fn batch_command(batched: &Script, calls: &[QueuedCall]) -> Cmd {
    let (keys, args) = calls.first().map(|call| call.call.counts).unwrap_or_default();
    let copy = |calls: &[QueuedCall], skip: usize, take: usize, cmd: &mut Cmd| {
        for call in calls {
            for arg in call.call.cmd.args_iter().skip(3 + skip).take(take) {
                if let Arg::Simple(arg) = arg {
                    cmd.arg(arg);
                }
            }
        }
    };
    let bytes = calls.iter().map(|call| call.call.bytes).sum::<usize>();
    let mut cmd = Cmd::with_capacity(5 + calls.len() * (keys + args), bytes + 64);
    cmd.arg("EVALSHA").arg(batched.sha1()).arg(calls.len() * keys);
    copy(calls, 0, keys, &mut cmd);
    cmd.arg(keys).arg(args);
    copy(calls, keys, args, &mut cmd);
    cmd
}
