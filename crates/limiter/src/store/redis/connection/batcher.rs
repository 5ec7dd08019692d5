//! Batching: calls that wait for a connection at the same moment are sent as one call.
//!
//! Half of a script's cost in Redis is its invocation: parsing, lookup, filling `KEYS` and `ARGV`, reading the clock. So
//! one task for each connection collects calls while other tasks run, and runs one script for many callers, each decided
//! as if it were alone. The batcher adds no delay: a single call is sent at once, unchanged.
//!
//! Each caller keeps its own deadline and gets its own reply or error; an error of one key does not affect the others.
//! In a cluster calls of different keys belong to different slots, so there is no batching.

use std::pin::pin;
use std::sync::Arc;

use redis::aio::MultiplexedConnection;
use redis::{RedisError, Value};
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

/// Calls that may queue between two turns of the task. Further ones are sent without others.
const QUEUE: usize = 4096;

/// Queue of a connection's calls.
#[derive(Clone)]
pub(crate) struct Batcher(mpsc::Sender<QueuedCall>);

struct QueuedCall {
    call: Arc<ScriptCall>,
    deadline: Instant,
    /// `None` once the deadline has passed.
    reply: Option<oneshot::Sender<Result<Value, RedisError>>>,
}

/// Task that sends batches while a [`Batcher`] exists.
#[derive(Clone)]
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

    /// Queues a call. The future waits for its reply until `deadline`, by the timer of its batch; `None`: it has passed. If the
    /// queue is full, the call is not queued.
    pub(crate) fn run(
        &self,
        call: Arc<ScriptCall>,
        deadline: Instant,
    ) -> Option<impl Future<Output = Option<Result<Value, RedisError>>> + use<>> {
        let (reply, replied) = oneshot::channel();
        self.0.try_send(QueuedCall { call, deadline, reply: Some(reply) }).ok()?;
        Some(async move {
            match replied.await {
                Ok(reply) => Some(reply),
                Err(_) if Instant::now() >= deadline => None,
                Err(_) => Some(Err(RedisError::from(std::io::Error::from(std::io::ErrorKind::BrokenPipe)))),
            }
        })
    }
}

// === impl QueuedCall ===

impl QueuedCall {
    fn is_dropped(&self) -> bool {
        self.reply.as_ref().is_none_or(oneshot::Sender::is_closed)
    }

    fn reply(self, result: Result<Value, RedisError>) {
        if let Some(reply) = self.reply {
            let _ = reply.send(result);
        }
    }
}

// === impl BatchSender ===

impl BatchSender {
    async fn run(self, mut queue: mpsc::Receiver<QueuedCall>) {
        let mut calls = Vec::with_capacity(MAX_CALLS);
        while queue.recv_many(&mut calls, MAX_CALLS).await > 0 {
            // Calls that are dropped or late must not be charged.
            let now = Instant::now();
            calls.retain(|call| !call.is_dropped() && call.deadline > now);
            while let Some(first) = calls.first() {
                let script = Arc::clone(&first.call.script);
                let counts = first.call.counts();
                let mut room = MAX_WEIGHT;
                let alike = |one: &mut QueuedCall| {
                    let is_alike = Arc::ptr_eq(&one.call.script, &script) && one.call.counts() == counts;
                    let rest = room.checked_sub(one.call.weight).filter(|_| is_alike);
                    room = rest.unwrap_or(if is_alike { 0 } else { room });
                    rest.is_some()
                };
                let batch: Vec<_> = calls.extract_if(.., alike).collect();
                // A task of their own waits for the replies.
                match <[QueuedCall; 1]>::try_from(batch) {
                    Ok([only]) => tokio::spawn(self.clone().send_one(only)),
                    Err(batch) => tokio::spawn(self.clone().send_batch(Arc::clone(script.batched()), batch)),
                };
            }
        }
    }

    /// Sends a call by itself.
    async fn send_one(mut self, mut queued: QueuedCall) {
        self.stats.call_sizes.observe(queued.call.requests);
        let (call, cmd) = (Arc::clone(&queued.call), queued.call.cmd());
        let reply = send_script(&mut self.connection, &self.stats.script_misses, Some(&call.script), &cmd, false);
        if let Some(reply) = wait_reply(reply, std::slice::from_mut(&mut queued)).await {
            queued.reply(reply);
        }
    }

    /// Sends `calls` of one script as one call of `batched`.
    async fn send_batch(mut self, batched: Arc<Script>, mut calls: Vec<QueuedCall>) {
        self.stats.call_sizes.observe(calls.iter().map(|call| call.call.requests).sum());
        let cmd = ScriptCall::batch_cmd(&batched, &calls.iter().map(|call| &*call.call).collect::<Vec<_>>());
        let reply = send_script(&mut self.connection, &self.stats.script_misses, Some(&batched), &cmd, false);
        match wait_reply(reply, &mut calls).await {
            Some(Ok(Value::Array(replies))) if replies.len() == calls.len() => {
                for (call, value) in calls.into_iter().zip(replies) {
                    call.reply(value.extract_error());
                }
            }
            // Nothing has run. The user may lack a permission for the key of one caller only.
            Some(Err(error)) if StoreError::classify(&error) == StoreError::NoPerm => {
                calls.into_iter().for_each(|call| drop(tokio::spawn(self.clone().send_one(call))));
            }
            // Callers treat a nil as an invalid reply.
            Some(other) => calls.into_iter().for_each(|call| call.reply(other.clone().map(|_| Value::Nil))),
            None => {}
        }
    }
}

/// Waits for a reply to `calls`; `None`: the deadlines of all have passed. A caller whose deadline passes waits no longer.
async fn wait_reply(
    reply: impl Future<Output = Result<Value, RedisError>>,
    calls: &mut [QueuedCall],
) -> Option<Result<Value, RedisError>> {
    let mut reply = pin!(reply);
    loop {
        let waiting = calls.iter().filter(|call| call.reply.is_some());
        let deadline = waiting.map(|call| call.deadline).min()?;
        if let Ok(reply) = timeout_at(deadline, &mut reply).await {
            return Some(reply);
        }
        calls.iter_mut().filter(|call| call.deadline <= deadline).for_each(|call| call.reply = None);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use std::time::Duration;

    use super::*;
    use crate::key::BucketKey;
    use crate::rule::samples;
    use crate::store::Check;
    use crate::store::redis::command::{CallOptions, decide};

    #[tokio::test(start_paused = true)]
    async fn each_call_of_a_batch_waits_until_its_own_deadline() {
        let (rule, key) = (&samples()[0], BucketKey { scope: "orders", id: b"me" });
        let call = Arc::new(decide(&[Check { key, rule, cost: 1 }], &[], &CallOptions::default()));
        let started = Instant::now();
        let queue = |millis| {
            let (reply, replied) = oneshot::channel();
            let deadline = started + Duration::from_millis(millis);
            (QueuedCall { call: Arc::clone(&call), deadline, reply: Some(reply) }, replied)
        };
        let (late, replied_late) = queue(40);
        let (early, replied_early) = queue(10);
        let waited = tokio::spawn(async move { wait_reply(std::future::pending(), &mut [late, early]).await });
        assert!(replied_early.await.is_err() && started.elapsed().as_millis() == 10);
        assert!(replied_late.await.is_err() && started.elapsed().as_millis() == 40);
        assert!(waited.await.unwrap().is_none(), "the batch ends with its last call");
    }
}
