//! Callers of Redis: the limiter's store and alternative designs.

use std::sync::Arc;

use redis::aio::MultiplexedConnection;
use redis::{Script, Value};
use tokio::sync::{mpsc, oneshot};
use tollgate_limiter::key::BucketKey;
use tollgate_limiter::rule::Rule;
use tollgate_limiter::store::redis::RedisStore;
use tollgate_limiter::store::{Check, Decision, Store};
use tollgate_tools::error::ToolError;

/// Largest number of requests in a batch.
const BATCH: usize = 64;

pub(crate) const TOKEN_BUCKET: &str = include_str!("../../../../lua/token_bucket.lua");
pub(crate) const GCRA: &str = include_str!("../../../../lua/gcra.lua");

/// Returns the Redis library with `lua/gcra.lua` as the function `gcra`.
pub(crate) fn gcra_function() -> Result<String, ToolError> {
    let code = code()?;
    Ok(format!("#!lua name=tollgate\nredis.register_function('gcra', function(KEYS, ARGV)\n{code}\nend)"))
}

/// Returns the script that runs `lua/gcra.lua` for many keys at one time, with four arguments each. Keys fail independently.
pub(crate) fn many_gcra() -> Result<Script, ToolError> {
    let (parse, rest) = parts(code()?, "-- [validate]")?;
    let (_, rest) = parts(rest, "-- [time]")?;
    let (time, rest) = parts(rest, "-- [/time]")?;
    Ok(Script::new(&format!(
        "local MILLION, call = 1000000, redis.call\n{time}\nlocal function one(KEYS, ARGV)\n{parse}\n{rest}\nend\n\
         local out, a, ok = {{}}, 1\nfor n = 1, #KEYS do\n\
         ok, out[n] = pcall(one, {{KEYS[n]}}, {{ARGV[a], ARGV[a + 1], ARGV[a + 2], ARGV[a + 3]}})\na = a + 4\n\
         end\nreturn out"
    )))
}

/// Returns `lua/gcra.lua` without its first comment.
fn code() -> Result<&'static str, ToolError> {
    parts(GCRA, "--]]").map(|(_, code)| code)
}

fn parts<'s>(script: &'s str, mark: &str) -> Result<(&'s str, &'s str), ToolError> {
    script.split_once(mark).ok_or_else(|| ToolError::Design(format!("lua/gcra.lua lacks the mark `{mark}`")))
}

/// Caller of Redis. Each task has a clone.
#[derive(Clone)]
pub(crate) enum Caller {
    /// The store of the limiter.
    Store { store: RedisStore, scope: &'static str, rules: Arc<[Rule]> },
    /// A GCRA call by `EVALSHA` or `FCALL`, without deadline, circuit breaker or verdict.
    Bare { connection: MultiplexedConnection, verb: &'static str, name: Arc<str> },
    /// A GCRA call through a task that sends queued requests as one batch.
    Batched(mpsc::Sender<Waiting>),
}

/// Queued request and the channel for its reply.
pub(crate) struct Waiting {
    key: Vec<u8>,
    answer: oneshot::Sender<Result<Value, ToolError>>,
}

/// Encoding of a batch.
#[derive(Clone)]
pub(crate) enum Batch {
    /// Pipeline of calls.
    Pipeline,
    /// One call of the script with this hash, with many keys.
    ManyKeys(Arc<str>),
}

impl Caller {
    pub(crate) async fn decide(&mut self, id: &[u8]) -> Result<(), ToolError> {
        match self {
            Self::Store { store, scope, rules } => call_store(store, scope, rules, id).await,
            Self::Bare { connection, verb, name } => {
                let mut call = redis::cmd(verb);
                call.arg(&**name).arg(1).arg(key(id)).arg(&RULE);
                let reply = connection.send_packed_command(&call).await?.extract_error()?;
                check_allowed(&reply)
            }
            Self::Batched(queue) => {
                let (answer, answered) = oneshot::channel();
                let lost = |_| ToolError::Reply("the sender of batches has ended".to_owned());
                queue.send(Waiting { key: key(id), answer }).await.map_err(|_| lost(()))?;
                check_allowed(&answered.await.map_err(|_| lost(()))??)
            }
        }
    }

    /// Starts the task that sends batches and returns a caller that uses it.
    pub(crate) fn batched(connection: MultiplexedConnection, batch: Batch) -> Self {
        let (queue, waiting) = mpsc::channel(4096);
        tokio::spawn(send_batches(connection, waiting, batch));
        Self::Batched(queue)
    }
}

/// Arguments of GCRA: rate, burst, time of Redis, cost.
pub(crate) const RULE: [&str; 4] = ["10", "1000", "", "1"];

fn key(id: &[u8]) -> Vec<u8> {
    [b"gcra.{orders.", id, b"}"].concat()
}

fn check_allowed(reply: &Value) -> Result<(), ToolError> {
    match reply {
        Value::Array(items) if items.first() == Some(&Value::Int(1)) => Ok(()),
        _ => Err(ToolError::Reply(format!("{reply:?}"))),
    }
}

async fn call_store(store: &RedisStore, scope: &str, rules: &[Rule], id: &[u8]) -> Result<(), ToolError> {
    let scopes = if rules.len() == 1 { [scope; 3] } else { ["orders#second", "orders#minute", "orders#hour"] };
    let check = |n: usize| Check { key: BucketKey { scope: scopes[n], id }, rule: &rules[n], cost: 1 };
    let decision = match rules.len() {
        1 => store.decide(&[check(0)], &[]),
        _ => store.decide(&[check(0), check(1), check(2)], &[]),
    };
    let verdict = match decision {
        Decision::Ready(verdict) => verdict,
        Decision::Pending(verdict) => verdict.await,
    };
    verdict.remaining.map(|_| ()).ok_or(ToolError::WithoutRedis)
}

/// Sends all queued requests as a batch, without waiting for earlier replies.
async fn send_batches(connection: MultiplexedConnection, mut queue: mpsc::Receiver<Waiting>, batch: Batch) {
    loop {
        let mut waiting = Vec::with_capacity(BATCH);
        if queue.recv_many(&mut waiting, BATCH).await == 0 {
            return;
        }
        tokio::spawn(send_batch(connection.clone(), waiting, batch.clone()));
    }
}

async fn send_batch(mut connection: MultiplexedConnection, waiting: Vec<Waiting>, batch: Batch) {
    match replies(&mut connection, &waiting, batch).await {
        Ok(replies) => {
            for (Waiting { answer, .. }, reply) in waiting.into_iter().zip(replies) {
                let _ = answer.send(Ok(reply));
            }
        }
        // The callers stop when the first of them gets the error.
        Err(error) => drop(waiting.into_iter().next().map(|first| first.answer.send(Err(error)))),
    }
}

async fn replies(
    connection: &mut MultiplexedConnection,
    waiting: &[Waiting],
    batch: Batch,
) -> Result<Vec<Value>, ToolError> {
    match batch {
        Batch::Pipeline => {
            let mut calls = redis::pipe();
            let script = Script::new(GCRA);
            for Waiting { key, .. } in waiting {
                calls.cmd("EVALSHA").arg(script.get_hash()).arg(1).arg(key).arg(&RULE);
            }
            Ok(connection.send_packed_commands(&calls, 0, waiting.len()).await?)
        }
        Batch::ManyKeys(hash) => {
            let mut call = redis::cmd("EVALSHA");
            call.arg(&*hash).arg(waiting.len());
            for Waiting { key, .. } in waiting {
                call.arg(key);
            }
            for _ in waiting {
                call.arg(&RULE);
            }
            let reply = connection.send_packed_command(&call).await?;
            match reply.extract_error()? {
                Value::Array(replies) => Ok(replies),
                other => Err(ToolError::Reply(format!("{other:?}"))),
            }
        }
    }
}
