//! One call of Redis, within a deadline.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use redis::{Cmd, ErrorKind, Pipeline, RedisError, ServerErrorKind, Value};
use tokio::time::{Duration, Instant, timeout_at};

use super::client::Shared;
use super::connection::Live;
use super::error::StoreError;
use super::hot::CHANNEL;
use super::script::Script;

/// Leave to make one call: a connection and the time by which it must have answered.
#[derive(Clone)]
pub(crate) struct Ticket {
    shared: Arc<Shared>,
    slot: usize,
    live: Live,
    deadline: Instant,
}

/// Tells all gateways something, on the connection of a call.
pub(super) struct Teller {
    live: Live,
    deadline: Instant,
}

impl Ticket {
    pub(super) fn new(shared: Arc<Shared>, slot: usize, live: Live, deadline: Instant) -> Self {
        Self { shared, slot, live, deadline }
    }

    /// Sends `cmd`, an `EVALSHA` of `script`, and waits until the deadline for an answer that `read` understands.
    pub(crate) async fn run<T>(
        mut self,
        script: &Script,
        cmd: &Cmd,
        read: impl FnOnce(&Value) -> Option<T>,
    ) -> Result<T, StoreError> {
        let reply = timeout_at(self.deadline, self.send(script, cmd)).await;
        self.conclude(reply.ok().map(|reply| reply.map(|value| read(&value))))
    }

    /// Sends all of `pipeline` in one write and waits until the deadline for all answers, in order; an error among
    /// them is an error of the whole.
    pub(crate) async fn pipeline(mut self, pipeline: &Pipeline) -> Result<Vec<Value>, StoreError> {
        let (offset, count) = (0, pipeline.len());
        let sent = timeout_at(self.deadline, self.live.connection.send_packed_commands(pipeline, offset, count)).await;
        self.conclude(sent.ok().map(|replies| {
            let replies = replies?.into_iter().map(Value::extract_error).collect::<Result<Vec<_>, _>>()?;
            Ok(Some(replies))
        }))
    }

    /// The same for a command that is no script. A key that holds something else is no failure of Redis: it reads as
    /// [`Value::Nil`].
    pub(crate) async fn run_plain<T>(
        mut self,
        cmd: &Cmd,
        read: impl FnOnce(&Value) -> Option<T>,
    ) -> Result<T, StoreError> {
        let call = async { self.live.connection.send_packed_command(cmd).await.and_then(Value::extract_error) };
        let reply = match timeout_at(self.deadline, call).await {
            Ok(Err(error)) if error.code() == Some("WRONGTYPE") => Ok(Ok(Value::Nil)),
            reply => reply,
        };
        self.conclude(reply.ok().map(|reply| reply.map(|value| read(&value))))
    }

    /// Leave for another call, from now on.
    pub(super) fn again(&self) -> Self {
        Self { deadline: Instant::now() + self.timeout(), ..self.clone() }
    }

    /// How long a call may take.
    pub(super) fn timeout(&self) -> Duration {
        self.shared.timeout
    }

    /// By when it must have answered.
    pub(super) fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Counts so many more requests that a call failed to decide for. Those that got no answer in time would each have
    /// waited as long for one of their own.
    pub(super) fn failed_others(&self, kind: StoreError, others: usize) {
        for _ in 0..others {
            self.shared.counters.failed(kind);
            if kind == StoreError::Timeout {
                self.shared.breaker.failed();
            }
        }
    }

    /// Whoever tells all gateways something behind this call.
    pub(super) fn teller(&self) -> Teller {
        Teller { live: self.live.clone(), deadline: self.deadline }
    }

    async fn send(&mut self, script: &Script, cmd: &Cmd) -> Result<Value, RedisError> {
        let reply = self.live.connection.send_packed_command(cmd).await.and_then(Value::extract_error);
        match reply {
            Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => {
                // Redis was restarted behind a proxy or its scripts were flushed. Nothing has run yet.
                self.shared.counters.script_misses.fetch_add(1, Ordering::Relaxed);
                // In one write, so that it is not forgotten again in between.
                let mut repair = Pipeline::with_capacity(2);
                repair.add_command(script.load()).add_command(cmd.clone());
                let replies = self.live.connection.send_packed_commands(&repair, 0, repair.len()).await?;
                replies.into_iter().try_fold(Value::Nil, |_, reply| reply.extract_error())
            }
            reply => reply,
        }
    }

    /// Counts for or against connection and breaker what came of a call: nothing by the deadline (`None`), an error, or
    /// an answer that makes sense or does not.
    fn conclude<T>(self, result: Option<Result<Option<T>, RedisError>>) -> Result<T, StoreError> {
        let slot = &self.shared.slots[self.slot];
        let kind = match result {
            Some(Ok(Some(answer))) => {
                slot.answered();
                self.shared.breaker.succeeded();
                return Ok(answer);
            }
            // Whatever speaks there is not the script: start over.
            Some(Ok(None)) => {
                self.shared.lose(slot, self.live.number);
                StoreError::Other
            }
            Some(Err(error)) => {
                let kind = StoreError::of(&error);
                if error.is_unrecoverable_error() || matches!(kind, StoreError::Disconnected | StoreError::ReadOnly) {
                    self.shared.lose(slot, self.live.number);
                } else {
                    slot.answered();
                }
                if matches!(kind, StoreError::Other | StoreError::Clocks) && error.code().is_some() {
                    // Redis answers: what one script makes of one key must not send all others elsewhere.
                    self.shared.breaker.succeeded();
                    self.shared.degraded(kind);
                    return Err(kind);
                }
                if kind == StoreError::NoScripts {
                    // No outage: whoever needs no scripts may go on.
                    self.shared.no_scripts.store(true, Ordering::Relaxed);
                    self.shared.degraded(kind);
                    return Err(kind);
                }
                kind
            }
            // It may have been decided: never sent again.
            None => {
                if slot.timed_out(self.live.number) {
                    self.shared.lose(slot, self.live.number);
                }
                StoreError::Timeout
            }
        };
        self.shared.breaker.failed();
        self.shared.degraded(kind);
        Err(kind)
    }
}

impl Teller {
    /// Tells them that something was given back to `key`. That the user may not is no failure: they find out by
    /// themselves, later.
    pub(super) async fn returned(mut self, key: &[u8]) {
        let mut cmd = redis::cmd("PUBLISH");
        cmd.arg(CHANNEL).arg(key);
        let _ = timeout_at(self.deadline, self.live.connection.send_packed_command(&cmd)).await;
    }
}
