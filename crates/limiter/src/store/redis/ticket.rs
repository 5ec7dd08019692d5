//! One call of Redis, within a deadline.

mod send;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use redis::{Cmd, Pipeline, RedisError, Value};
use tokio::time::{Duration, Instant, timeout_at};

pub(super) use self::send::HOPS;
use super::call::Call;
use super::error::StoreError;
use super::exchange::write;
use super::hot::CHANNEL;
use super::link::Live;
use super::node::Node;
use super::redirect::Redirect;
use super::script::Script;
use super::shared::Shared;
use super::stats::Operation;
use super::supervisor::describe;

/// Leave to make one call: a connection and the time by which it must have answered.
#[derive(Clone)]
pub(crate) struct Ticket {
    shared: Arc<Shared>,
    node: Arc<Node>,
    /// `None` while the node is being connected to.
    at: Option<(usize, Live)>,
    operation: Operation,
    deadline: Instant,
}

/// Tells all gateways something, on the connection of a call.
pub(super) struct Teller {
    live: Option<Live>,
    deadline: Instant,
}

/// Why there is no answer.
enum Failure {
    /// The node answered with an error, or the connection broke.
    Redis(RedisError),
    /// The node that it should have been sent to cannot be asked.
    NotAsked(StoreError),
}

impl From<RedisError> for Failure {
    fn from(error: RedisError) -> Self {
        Self::Redis(error)
    }
}

impl Ticket {
    pub(super) fn new(
        shared: Arc<Shared>,
        node: Arc<Node>,
        at: Option<(usize, Live)>,
        operation: Operation,
        deadline: Instant,
    ) -> Self {
        Self { shared, node, at, operation, deadline }
    }

    /// Leave for another call to the same node, from now on.
    pub(super) fn again(&self) -> Self {
        Self { at: self.node.find_live(), deadline: Instant::now() + self.timeout(), ..self.clone() }
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
            self.shared.stats.failed(kind);
            if kind == StoreError::Timeout {
                self.node.breaker.failed(kind);
            }
        }
    }

    /// Counts a request that could not wait for an answer that came: Redis is not to blame.
    pub(super) fn was_late(&self) {
        self.shared.stats.failed(StoreError::Timeout);
    }

    /// Whoever tells all gateways something behind this call.
    pub(super) fn teller(&self) -> Teller {
        Teller { live: self.at.as_ref().map(|(_, live)| live.clone()), deadline: self.deadline }
    }

    /// Whether it is about that node.
    pub(super) fn is_for(&self, node: &Arc<Node>) -> bool {
        Arc::ptr_eq(&self.node, node)
    }

    /// Sends `cmd`, an `EVALSHA` of `script`, and waits until the deadline for an answer that `read` understands.
    pub(crate) async fn run<T>(
        mut self,
        script: &Script,
        cmd: &Cmd,
        read: impl FnOnce(&Value) -> Option<T>,
    ) -> Result<T, StoreError> {
        let started = Instant::now();
        let reply = timeout_at(self.deadline, self.send(Some(script), cmd)).await;
        self.conclude(started, reply.ok().map(|reply| reply.map(|value| read(&value))))
    }

    /// The same for a decision, which may go out together with others.
    pub(super) async fn decide<T>(
        mut self,
        call: Call,
        read: impl FnOnce(&Value) -> Option<T>,
    ) -> Result<T, StoreError> {
        let (started, deadline) = (Instant::now(), self.deadline);
        let reply = timeout_at(deadline, self.hand_in(Arc::new(call))).await;
        self.conclude(started, reply.ok().map(|reply| reply.map(|value| read(&value))))
    }

    async fn hand_in(&mut self, call: Arc<Call>) -> Result<Value, Failure> {
        let deadline = self.deadline;
        if let Some(batches) = &self.reach().await?.batches {
            match batches.clone().run(Arc::clone(&call), deadline).await {
                // It has not run: sent on to where the primary is.
                Err(error) if StoreError::of(&error) == StoreError::ReadOnly => {}
                reply => return Ok(reply?),
            }
        }
        self.send(Some(&call.script), &call.cmd).await
    }

    /// The same for a command that is no script. A key that holds something else is no failure of Redis: it reads as
    /// [`Value::Nil`].
    pub(crate) async fn run_plain<T>(
        mut self,
        cmd: &Cmd,
        read: impl FnOnce(&Value) -> Option<T>,
    ) -> Result<T, StoreError> {
        let started = Instant::now();
        let reply = match timeout_at(self.deadline, self.send(None, cmd)).await {
            Ok(Err(Failure::Redis(error))) if error.code() == Some("WRONGTYPE") => Ok(Ok(Value::Nil)),
            reply => reply,
        };
        self.conclude(started, reply.ok().map(|reply| reply.map(|value| read(&value))))
    }

    /// Asks the server about itself: an error that it answers with is an answer, and the breaker only hears of silence.
    pub(super) async fn look(mut self, cmd: &Cmd) -> Option<Result<Value, StoreError>> {
        let started = Instant::now();
        let (place, live) = self.at.as_mut()?;
        let (place, number) = (*place, live.number);
        let reply = timeout_at(self.deadline, write(&mut live.connection, None, cmd, false)).await;
        let link = &self.node.links[place];
        self.shared.stats.latencies(self.operation).observe(started.elapsed());
        match reply {
            Ok(Ok(value)) => {
                self.answered();
                Some(Ok(value))
            }
            Ok(Err(error)) if error.code().is_some() => Some(Err(StoreError::of(&error))),
            Ok(Err(_)) => {
                self.shared.lose(&self.node, link, number);
                None
            }
            Err(_) => {
                if link.timed_out(number) {
                    self.shared.lose(&self.node, link, number);
                }
                self.node.breaker.failed(StoreError::Timeout);
                None
            }
        }
    }

    /// Sends all of `pipeline` to this node in one write and waits until the deadline for all answers, in order, errors
    /// among them: those are not followed elsewhere.
    pub(super) async fn pipeline(mut self, pipeline: &Pipeline) -> Result<Vec<Value>, StoreError> {
        let (started, deadline) = (Instant::now(), self.deadline);
        let call = async {
            let live = self.reach().await?;
            Ok::<_, Failure>(live.connection.send_packed_commands(pipeline, 0, pipeline.len()).await?)
        };
        match timeout_at(deadline, call).await {
            Ok(Ok(replies)) => {
                let host = self.node.host();
                let errors = replies.iter().filter(|reply| matches!(reply, Value::ServerError(_)));
                let mut errors = errors.filter_map(|reply| reply.clone().extract_error().err());
                // One error speaks for all: the node is the same. A redirection is none.
                let _ = match errors.find(|error| Redirect::of(error, host).is_none()) {
                    Some(error) => self.conclude::<()>(started, Some(Err(error.into()))),
                    None => self.conclude(started, Some(Ok(Some(())))),
                };
                Ok(replies)
            }
            Ok(Err(failure)) => self.conclude(started, Some(Err(failure))),
            Err(_) => self.conclude(started, None),
        }
    }

    fn answered(&self) {
        if let Some((link, _)) = self.at {
            self.node.links[link].answered();
        }
        self.node.breaker.succeeded();
    }

    /// Counts for or against connection and breaker what came of a call: nothing by the deadline (`None`), an error, or
    /// an answer that makes sense or does not.
    fn conclude<T>(self, started: Instant, result: Option<Result<Option<T>, Failure>>) -> Result<T, StoreError> {
        let node = &self.node;
        self.shared.stats.latencies(self.operation).observe(started.elapsed());
        let Some((link, live)) = &self.at else {
            let kind = match result {
                Some(Err(Failure::NotAsked(kind))) => kind,
                _ => StoreError::Disconnected,
            };
            self.shared.degraded(self.operation, &node.name, kind);
            return Err(kind);
        };
        let link = &node.links[*link];
        let kind = match result {
            Some(Ok(Some(answer))) => {
                self.answered();
                return Ok(answer);
            }
            // Whatever speaks there is not the script: start over.
            Some(Ok(None)) => {
                self.shared.lose(node, link, live.number);
                StoreError::Other
            }
            Some(Err(Failure::NotAsked(kind))) => kind,
            Some(Err(Failure::Redis(error))) => {
                let kind = StoreError::of(&error);
                if error.is_unrecoverable_error() || matches!(kind, StoreError::Disconnected | StoreError::ReadOnly) {
                    self.shared.lose(node, link, live.number);
                } else {
                    link.answered();
                }
                if matches!(kind, StoreError::ReadOnly | StoreError::ClusterDown) {
                    self.shared.doubt();
                }
                if !self.operation.serves_requests() && error.code().is_some() {
                    // What this user may not do here says nothing of decisions.
                    return Err(kind);
                }
                let spares_others = matches!(
                    kind,
                    StoreError::Other | StoreError::Clocks | StoreError::ClusterDown | StoreError::NoPerm
                );
                if spares_others && error.code().is_some() {
                    // Redis answers: what it makes of one key must not send all others elsewhere.
                    node.breaker.succeeded();
                    let reason = (kind == StoreError::NoPerm).then(|| describe(&error));
                    self.shared.degraded_because(self.operation, &node.name, kind, reason.as_deref());
                    return Err(kind);
                }
                if kind == StoreError::NoScripts {
                    // No outage: whoever needs no scripts may go on.
                    node.no_scripts.store(true, Ordering::Relaxed);
                    self.shared.degraded(self.operation, &node.name, kind);
                    return Err(kind);
                }
                kind
            }
            // It may have been decided: never sent again.
            None => {
                if link.timed_out(live.number) {
                    self.shared.lose(node, link, live.number);
                }
                self.shared.doubt();
                StoreError::Timeout
            }
        };
        node.breaker.failed(kind);
        self.shared.degraded(self.operation, &node.name, kind);
        Err(kind)
    }
}

impl Teller {
    /// Tells them that something was given back to `key`. That the user may not is no failure: they find out by
    /// themselves, later.
    pub(super) async fn returned(self, key: &[u8]) {
        let Some(mut live) = self.live else { return };
        let mut cmd = redis::cmd("PUBLISH");
        cmd.arg(CHANNEL).arg(key);
        let _ = timeout_at(self.deadline, live.connection.send_packed_command(&cmd)).await;
    }
}
