//! One request to Redis, within a deadline.

use std::sync::Arc;

use redis::{Cmd, Pipeline, RedisError, Value};
use tokio::time::{Duration, Instant, timeout_at};

use super::inner::ClientInner;
use super::notifier::Notifier;
use super::outcome::Unanswered;
use crate::store::breaker::BreakerState;
use crate::store::redis::command::ScriptCall;
use crate::store::redis::connection::{LiveConnection, ScriptForm, send};
use crate::store::redis::error::StoreError;
use crate::store::redis::script::Script;
use crate::store::redis::stats::Operation;
use crate::store::redis::topology::{Node, Redirect};

/// A request to one node: its connection, and the deadline of the reply.
#[derive(Clone)]
pub(crate) struct Request {
    pub(super) client: Arc<ClientInner>,
    pub(super) node: Arc<Node>,
    /// Index of the connection's slot, and the connection. `None` while the node is connecting: the call waits.
    pub(super) connection: Option<(usize, LiveConnection)>,
    pub(super) operation: Operation,
    pub(super) deadline: Instant,
}

/// Reason why there is no reply.
pub(super) enum RequestError {
    /// The node replied with an error, or the connection broke.
    Redis(RedisError),
    /// The request could not be sent.
    NotSent(StoreError),
}

impl From<RedisError> for RequestError {
    fn from(error: RedisError) -> Self {
        Self::Redis(error)
    }
}

impl Request {
    /// Begins a request to `node`, or returns at once the reason why it cannot be called.
    pub(super) fn begin(
        client: &Arc<ClientInner>,
        node: Arc<Node>,
        operation: Operation,
        deadline: Instant,
    ) -> Result<Self, StoreError> {
        let connection = match node.live_connection() {
            None if node.is_connecting() && node.breaker.state() == BreakerState::Closed => Ok(None),
            None => Err(node.connect_error()),
            // The breaker does not count it: calls without scripts may succeed.
            Some(_) if operation.runs_script() && node.lacks_scripts() => Err(StoreError::NoScripts),
            Some(_) if !node.breaker.admits() => Err(StoreError::BreakerOpen),
            live => Ok(live),
        };
        let connection =
            connection.inspect_err(|&kind| client.context.record_failure(operation, &node.name, kind, None))?;
        Ok(Self { client: Arc::clone(client), node, connection, operation, deadline })
    }

    /// Begins an `INFO` request, if the node is connected and its breaker admits it.
    pub(super) fn begin_info(client: &Arc<ClientInner>, node: &Arc<Node>, deadline: Instant) -> Option<Self> {
        let connection = Some(node.live_connection()?);
        node.breaker.admits().then(|| Self {
            client: Arc::clone(client),
            node: Arc::clone(node),
            connection,
            operation: Operation::Info,
            deadline,
        })
    }

    /// Begins another request to the same node, with a new deadline.
    pub(crate) fn renew(&self) -> Self {
        Self { connection: self.node.live_connection(), deadline: Instant::now() + self.timeout(), ..self.clone() }
    }

    /// Longest time of a call.
    pub(crate) fn timeout(&self) -> Duration {
        self.client.context.timeout
    }

    pub(crate) fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Returns true if the request is for that node.
    pub(crate) fn is_for(&self, node: &Arc<Node>) -> bool {
        Arc::ptr_eq(&self.node, node)
    }

    /// Notifier that publishes behind this request.
    pub(crate) fn notifier(&self) -> Notifier {
        let connection = self.connection.as_ref().map(|(_, live)| live.clone());
        Notifier { context: Arc::clone(&self.client.context), connection, deadline: self.deadline }
    }

    /// Counts `others` more requests that a failed call would have decided. After a timeout each counts against the
    /// breaker, since each would have waited as long for a call of its own.
    pub(crate) fn record_failure_of_others(&self, kind: StoreError, others: usize) {
        for _ in 0..others {
            self.client.context.stats.record_failure(kind);
            if kind == StoreError::Timeout {
                self.node.breaker.record_failure(kind);
            }
        }
    }

    /// Counts a request that reached its deadline before its coalesced call was sent. Redis is not at fault.
    pub(crate) fn record_late(&self) {
        self.client.context.stats.record_failure(StoreError::Timeout);
    }

    /// Sends `cmd`, an `EVALSHA` of `script`, and waits for a reply that `read` understands.
    pub(crate) async fn run<T>(
        self,
        script: &Script,
        cmd: &Cmd,
        read: impl FnOnce(&Value) -> Option<T>,
    ) -> Result<T, StoreError> {
        self.run_reported(script, cmd, read).await.map_err(StoreError::from)
    }

    /// Does the same, and reports a failed call that may have run.
    pub(crate) async fn run_reported<T>(
        mut self,
        script: &Script,
        cmd: &Cmd,
        read: impl FnOnce(&Value) -> Option<T>,
    ) -> Result<T, Unanswered> {
        let started = Instant::now();
        let reply = timeout_at(self.deadline, self.send(Some(script), cmd)).await;
        self.finish(started, reply.ok().map(|reply| reply.map(|value| read(&value))))
    }

    /// Sends a decision as a call of its own, and waits for a reply that `read` understands.
    pub(crate) async fn decide_alone<T>(
        self,
        call: &ScriptCall,
        read: impl FnOnce(&Value) -> Option<T>,
    ) -> Result<T, StoreError> {
        self.client.context.stats.call_sizes.record(call.requests);
        self.run(&call.script, &call.cmd, read).await
    }

    /// Sends a decision, possibly in a batch with others, and waits for a reply that `read` understands.
    pub(crate) async fn decide<T>(
        mut self,
        call: ScriptCall,
        read: impl FnOnce(&Value) -> Option<T>,
    ) -> Result<T, StoreError> {
        let (started, deadline) = (Instant::now(), self.deadline);
        let reply = timeout_at(deadline, self.send_batched(Arc::new(call))).await;
        self.finish(started, reply.ok().map(|reply| reply.map(|value| read(&value)))).map_err(StoreError::from)
    }

    async fn send_batched(&mut self, call: Arc<ScriptCall>) -> Result<Value, RequestError> {
        let deadline = self.deadline;
        if let Some(batcher) = &self.wait_connection().await?.batcher {
            match batcher.clone().run(Arc::clone(&call), deadline).await {
                // Nothing has run: send it on to the primary.
                Err(error) if StoreError::classify(&error) == StoreError::ReadOnly => {}
                reply => return Ok(reply?),
            }
        }
        self.client.context.stats.call_sizes.record(call.requests);
        self.send(Some(&call.script), &call.cmd).await
    }

    /// Sends a command without a script. A key of the wrong type is not a failure of Redis: it reads as [`Value::Nil`].
    pub(crate) async fn run_plain<T>(
        mut self,
        cmd: &Cmd,
        read: impl FnOnce(&Value) -> Option<T>,
    ) -> Result<T, Unanswered> {
        let started = Instant::now();
        let reply = match timeout_at(self.deadline, self.send(None, cmd)).await {
            Ok(Err(RequestError::Redis(error))) if error.code() == Some("WRONGTYPE") => Ok(Ok(Value::Nil)),
            reply => reply,
        };
        self.finish(started, reply.ok().map(|reply| reply.map(|value| read(&value))))
    }

    /// Queries the server about itself. An error reply is a reply; only silence counts against the breaker. `None`: no
    /// reply.
    pub(crate) async fn query_server(mut self, cmd: &Cmd) -> Option<Result<Value, StoreError>> {
        let started = Instant::now();
        let (slot, live) = self.connection.as_mut()?;
        let (slot, id) = (*slot, live.id);
        let reply = timeout_at(self.deadline, send(&mut live.connection, None, cmd, false)).await;
        self.client.context.stats.latencies(self.operation).observe(started.elapsed());
        match reply {
            Ok(Ok(value)) => {
                self.record_reply();
                Some(Ok(value))
            }
            Ok(Err(error)) if error.code().is_some() => Some(Err(StoreError::classify(&error))),
            Ok(Err(_)) => {
                self.node.record_end(slot, id);
                None
            }
            Err(_) => {
                if self.node.slots[slot].record_timeout(id) {
                    self.node.drop_connection(slot, id);
                }
                self.node.breaker.record_failure(StoreError::Timeout);
                None
            }
        }
    }

    /// Sends `pipeline`, script calls in `form`, in one write and waits for all replies, in order. Error replies are among
    /// them; no call is repeated.
    pub(crate) async fn run_pipeline(
        mut self,
        pipeline: &Pipeline,
        form: ScriptForm,
    ) -> Result<Vec<Value>, Unanswered> {
        let (started, deadline) = (Instant::now(), self.deadline);
        let call = async {
            let live = self.wait_connection().await?;
            Ok::<_, RequestError>(live.connection.send_packed_commands(pipeline, 0, pipeline.len()).await?)
        };
        match timeout_at(deadline, call).await {
            Ok(Ok(replies)) => {
                let host = self.node.host();
                let errors = replies.iter().filter(|reply| matches!(reply, Value::ServerError(_)));
                let mut errors = errors.filter_map(|reply| reply.clone().extract_error().err());
                // One error counts for all, since the node is the same. Calls to repeat are no errors.
                let is_final =
                    |error: &RedisError| Redirect::parse(error, host).is_none() && form.after(error).is_none();
                let _ = match errors.find(is_final) {
                    Some(error) => self.finish::<()>(started, Some(Err(error.into()))),
                    None => self.finish(started, Some(Ok(Some(())))),
                };
                Ok(replies)
            }
            Ok(Err(failure)) => {
                // Some commands of the pipeline may have run.
                let was_sent = matches!(failure, RequestError::Redis(_));
                let failed = |failed: Unanswered| Unanswered { may_have_run: was_sent, ..failed };
                self.finish(started, Some(Err(failure))).map_err(failed)
            }
            Err(_) => self.finish(started, None),
        }
    }
}
