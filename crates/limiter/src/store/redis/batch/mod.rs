//! Calls of a connection that wait at the same moment go out as one.
//!
//! What a script costs Redis is half calling it: parsing, finding it, filling `KEYS` and `ARGV`, reading the clock. So one
//! task for each connection gathers what callers hand in while others have their turn, and calls one script for many
//! (`script.rs`), each decided as though it were alone. It waits for nothing: a lone call goes out at once, as it is.
//!
//! Every caller keeps its own deadline, and gets its own answer or error; one key's error leaves the others alone. Calls
//! of different keys share nothing, so that a Cluster, where they live in different slots, has no use for this.

mod script;

pub(super) use self::script::for_many;

use std::sync::Arc;

use redis::aio::MultiplexedConnection;
use redis::{Arg, Cmd, RedisError, Value};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout_at};

use super::call::Call;
use super::error::StoreError;
use super::exchange::exchange;
use super::script::Script;
use super::stats::RedisStats;

/// The most calls in one. More would save little, and other clients of this Redis wait meanwhile: half a millisecond.
const MOST: usize = 64;

/// Calls that may wait for their turn.
const QUEUE: usize = 4096;

/// Where callers of a connection hand in what they ask.
#[derive(Clone)]
pub(super) struct Batches(mpsc::Sender<Waiting>);

struct Waiting {
    call: Arc<Call>,
    deadline: Instant,
    answer: oneshot::Sender<Result<Value, RedisError>>,
}

/// What sends batches, as long as somebody may hand in.
struct Sender {
    connection: MultiplexedConnection,
    stats: Arc<RedisStats>,
    /// Scripts for many that Redis was told on this connection.
    told: Vec<Arc<Script>>,
}

// === impl Batches ===

impl Batches {
    /// Starts the task, in the runtime that this is called in. It ends with the last clone of this.
    pub(super) fn start(connection: MultiplexedConnection, stats: Arc<RedisStats>) -> Self {
        let (queue, waiting) = mpsc::channel(QUEUE);
        tokio::spawn(Sender { connection, stats, told: Vec::new() }.run(waiting));
        Self(queue)
    }

    /// Hands in a call and waits for its answer; the caller stops waiting at `deadline`.
    pub(super) async fn run(&self, call: Arc<Call>, deadline: Instant) -> Result<Value, RedisError> {
        let (answer, answered) = oneshot::channel();
        let gone = || RedisError::from(std::io::Error::from(std::io::ErrorKind::BrokenPipe));
        self.0.send(Waiting { call, deadline, answer }).await.map_err(|_| gone())?;
        match answered.await {
            Ok(reply) => reply,
            // Its task stopped at the deadline, as the caller is about to: no broken connection.
            Err(_) if Instant::now() >= deadline => std::future::pending().await,
            Err(_) => Err(gone()),
        }
    }
}

// === impl Sender ===

impl Sender {
    async fn run(mut self, mut queue: mpsc::Receiver<Waiting>) {
        let mut waiting = Vec::with_capacity(MOST);
        while queue.recv_many(&mut waiting, MOST).await > 0 {
            // Who has given up already need not be charged.
            waiting.retain(|one| !one.answer.is_closed());
            while let Some(first) = waiting.first() {
                let script = Arc::clone(&first.call.script);
                let shape = first.call.shape;
                let alike = |one: &mut Waiting| Arc::ptr_eq(&one.call.script, &script) && one.call.shape == shape;
                self.send(script.clone(), waiting.extract_if(.., alike).collect()).await;
            }
        }
    }

    /// Sends calls of one script, and lets a task of their own wait for the answers.
    async fn send(&mut self, script: Arc<Script>, calls: Vec<Waiting>) {
        let (connection, stats) = (self.connection.clone(), Arc::clone(&self.stats));
        let Some(deadline) = calls.iter().map(|one| one.deadline).max() else { return };
        if calls.len() == 1 {
            tokio::spawn(timeout_at(deadline, send_one(connection, stats, calls)));
            return;
        }
        let many = script.many();
        if !self.told.iter().any(|told| Arc::ptr_eq(told, many)) {
            let told = timeout_at(deadline, self.connection.send_packed_command(&many.load())).await;
            if matches!(told, Ok(Ok(_))) {
                self.told.push(Arc::clone(many));
            }
        }
        tokio::spawn(timeout_at(deadline, send_many(connection, stats, Arc::clone(many), calls)));
    }
}

async fn send_one(mut connection: MultiplexedConnection, stats: Arc<RedisStats>, calls: Vec<Waiting>) {
    for Waiting { call, answer, .. } in calls {
        let _ =
            answer.send(exchange(&mut connection, &stats.script_misses, Some(&call.script), &call.cmd, false).await);
    }
}

async fn send_many(
    mut connection: MultiplexedConnection,
    stats: Arc<RedisStats>,
    many: Arc<Script>,
    calls: Vec<Waiting>,
) {
    let cmd = command(&many, &calls);
    match exchange(&mut connection, &stats.script_misses, Some(&many), &cmd, false).await {
        Ok(Value::Array(replies)) if replies.len() == calls.len() => {
            for (Waiting { answer, .. }, reply) in calls.into_iter().zip(replies) {
                let _ = answer.send(reply.extract_error());
            }
        }
        // Nothing has run: perhaps it is the key of one that the user may not touch.
        Err(error) if StoreError::of(&error) == StoreError::NoPerm => {
            for one in calls {
                let (deadline, connection, stats) = (one.deadline, connection.clone(), Arc::clone(&stats));
                tokio::spawn(timeout_at(deadline, send_one(connection, stats, vec![one])));
            }
        }
        // Callers make of a nil what they make of any nonsense.
        other => calls.into_iter().for_each(|one| drop(one.answer.send(other.clone().map(|_| Value::Nil)))),
    }
}

/// `EVALSHA many keys [key …] keys-each arguments-each [argument …]`
fn command(many: &Script, calls: &[Waiting]) -> Cmd {
    let (keys, arguments) = calls.first().map(|one| one.call.shape).unwrap_or_default();
    let words = |calls: &[Waiting], skip: usize, take: usize, cmd: &mut Cmd| {
        for one in calls {
            for word in one.call.cmd.args_iter().skip(3 + skip).take(take) {
                if let Arg::Simple(word) = word {
                    cmd.arg(word);
                }
            }
        }
    };
    let bytes = calls.iter().map(|one| one.call.bytes).sum::<usize>();
    let mut cmd = Cmd::with_capacity(5 + calls.len() * (keys + arguments), bytes + 64);
    cmd.arg("EVALSHA").arg(many.sha1()).arg(calls.len() * keys);
    words(calls, 0, keys, &mut cmd);
    cmd.arg(keys).arg(arguments);
    words(calls, keys, arguments, &mut cmd);
    cmd
}
