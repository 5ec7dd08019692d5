//! One call of Redis, within a deadline.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use redis::{Cmd, ErrorKind, Pipeline, RedisError, ServerErrorKind, Value};
use tokio::time::{Duration, Instant, timeout_at};

use super::client::Shared;
use super::error::StoreError;
use super::link::Live;
use super::node::Node;
use super::script::Script;
use super::stats::Operation;

/// Leave to make one call: a connection and the time by which it must have answered.
pub(crate) struct Ticket {
    shared: Arc<Shared>,
    node: Arc<Node>,
    link: usize,
    live: Live,
    operation: Operation,
    started: Instant,
    deadline: Instant,
}

impl Ticket {
    /// Leave that ends `timeout` from now.
    pub(super) fn new(
        shared: Arc<Shared>,
        node: Arc<Node>,
        (link, live): (usize, Live),
        operation: Operation,
        timeout: Duration,
    ) -> Self {
        let started = Instant::now();
        Self { shared, node, link, live, operation, started, deadline: started + timeout }
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

    /// Asks the server about itself: an error that it answers with is an answer, and the breaker only hears of silence.
    pub(super) async fn look(mut self, cmd: &Cmd) -> Option<Result<Value, StoreError>> {
        let call = async { self.live.connection.send_packed_command(cmd).await.and_then(Value::extract_error) };
        let reply = timeout_at(self.deadline, call).await;
        self.shared.stats.latencies(self.operation).observe(self.started.elapsed());
        match reply {
            Ok(Ok(value)) => Some(Ok(value)),
            Ok(Err(error)) if error.code().is_some() => Some(Err(StoreError::of(&error))),
            Ok(Err(_)) => {
                self.shared.lose(&self.node, &self.node.links[self.link], self.live.number);
                None
            }
            Err(_) => {
                if self.node.links[self.link].timed_out(self.live.number) {
                    self.shared.lose(&self.node, &self.node.links[self.link], self.live.number);
                }
                self.node.breaker.failed(StoreError::Timeout);
                None
            }
        }
    }

    async fn send(&mut self, script: &Script, cmd: &Cmd) -> Result<Value, RedisError> {
        let reply = self.live.connection.send_packed_command(cmd).await.and_then(Value::extract_error);
        match reply {
            Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => {
                // Redis was restarted behind a proxy or its scripts were flushed. Nothing has run yet.
                self.shared.stats.script_misses.fetch_add(1, Ordering::Relaxed);
                self.live.connection.send_packed_command(&script.load()).await?.extract_error()?;
                self.live.connection.send_packed_command(cmd).await.and_then(Value::extract_error)
            }
            reply => reply,
        }
    }

    /// Counts for or against connection and breaker what came of a call: nothing by the deadline (`None`), an error, or
    /// an answer that makes sense or does not.
    fn conclude<T>(self, result: Option<Result<Option<T>, RedisError>>) -> Result<T, StoreError> {
        let (node, link) = (&self.node, &self.node.links[self.link]);
        self.shared.stats.latencies(self.operation).observe(self.started.elapsed());
        let kind = match result {
            Some(Ok(Some(answer))) => {
                link.answered();
                node.breaker.succeeded();
                return Ok(answer);
            }
            // Whatever speaks there is not the script: start over.
            Some(Ok(None)) => {
                self.shared.lose(node, link, self.live.number);
                StoreError::Other
            }
            Some(Err(error)) => {
                let kind = StoreError::of(&error);
                if error.is_unrecoverable_error() || matches!(kind, StoreError::Disconnected | StoreError::ReadOnly) {
                    self.shared.lose(node, link, self.live.number);
                } else {
                    link.answered();
                }
                if !self.operation.serves_requests() && error.code().is_some() {
                    // What this user may not do here says nothing of decisions.
                    return Err(kind);
                }
                if matches!(kind, StoreError::Other | StoreError::Clocks) && error.code().is_some() {
                    // Redis answers: what one script makes of one key must not send all others elsewhere.
                    node.breaker.succeeded();
                    self.shared.degraded(self.operation, node, kind);
                    return Err(kind);
                }
                if kind == StoreError::NoScripts {
                    // No outage: whoever needs no scripts may go on.
                    node.no_scripts.store(true, Ordering::Relaxed);
                    self.shared.degraded(self.operation, node, kind);
                    return Err(kind);
                }
                kind
            }
            // It may have been decided: never sent again.
            None => {
                if link.timed_out(self.live.number) {
                    self.shared.lose(node, link, self.live.number);
                }
                StoreError::Timeout
            }
        };
        node.breaker.failed(kind);
        self.shared.degraded(self.operation, node, kind);
        Err(kind)
    }
}
