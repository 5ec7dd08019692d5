//! One request to Redis, within a deadline.

use std::pin::Pin;
use std::sync::Arc;

use redis::{Cmd, Pipeline, RedisError, Value};
use tokio::time::{Duration, Instant, timeout_at};

use super::ClientInner;
use super::outcome::Unanswered;
use crate::store::redis::breaker::BreakerState;
use crate::store::redis::command::ScriptCall;
use crate::store::redis::connection::{LiveConnection, ScriptForm};
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

    /// Publishes `message` to all gateways on the connection of the request, behind it. An error is ignored, since the user
    /// may lack the permission: cached denials then end by their own deadline.
    pub(crate) async fn notify(&mut self, message: &[u8]) {
        let Some((_, live)) = &mut self.connection else { return };
        let mut cmd = redis::cmd("PUBLISH");
        cmd.arg(&self.client.context.channel).arg(message);
        let _ = timeout_at(self.deadline, live.connection.send_packed_command(&cmd)).await;
    }

    /// Counts `others` more requests that a failed call would have decided. After a timeout each counts against the
    /// breaker, since each would have waited as long for a call of its own.
    pub(crate) fn record_failure_of_others(&self, kind: StoreError, others: usize) {
        for _ in 0..others {
            self.client.context.stats.failures.record(kind);
            if kind == StoreError::Timeout {
                self.node.breaker.record_failure(kind);
            }
        }
    }

    /// Counts a request that reached its deadline before its coalesced call was sent. Redis is not at fault.
    pub(crate) fn record_late(&self) {
        self.client.context.stats.failures.record(StoreError::Timeout);
    }

    /// Sends `cmd` and waits for a reply that `read` understands. With `script`, `cmd` is its `EVALSHA`. A hash of plans that has
    /// another type reads as [`Value::Nil`]: no key has a plan.
    pub(crate) async fn run<T>(
        mut self,
        script: Option<&Script>,
        cmd: &Cmd,
        read: impl FnOnce(&Value) -> Option<T>,
    ) -> Result<T, Unanswered> {
        let started = Instant::now();
        let reply = match timeout_at(self.deadline, self.send(script, cmd)).await {
            Ok(Err(RequestError::Redis(error)))
                if self.operation == Operation::Plan && error.code() == Some("WRONGTYPE") =>
            {
                Ok(Ok(Value::Nil))
            }
            reply => reply,
        };
        self.finish(started, reply.ok().map(|reply| reply.map(|value| read(&value))))
    }

    /// Does the same for a call that returns tokens to `keys`. Denials that are cached of them end here, and on all gateways
    /// with the notice behind the call.
    pub(crate) async fn run_returning<T>(
        self,
        script: Option<&Script>,
        cmd: &Cmd,
        keys: &[Vec<u8>],
        read: impl FnOnce(&Value) -> Option<T>,
    ) -> Result<T, Unanswered> {
        let mut behind = self.clone();
        let context = Arc::clone(&self.client.context);
        let invalidate = || keys.iter().for_each(|key| context.invalidations.invalidate(key));
        invalidate();
        let reply = self.run(script, cmd, read).await;
        // The call may have run although the reply is missing.
        invalidate();
        if reply.is_ok() {
            for key in keys {
                behind.notify(key).await;
            }
        }
        reply
    }

    /// Sends a decision, possibly in a batch with others, and waits for a reply that `read` understands.
    pub(crate) async fn decide<T>(
        &mut self,
        call: Arc<ScriptCall>,
        read: impl FnOnce(&Value) -> Option<T>,
    ) -> Result<T, Unanswered> {
        let started = Instant::now();
        let batcher = self.connection.as_ref().and_then(|(_, live)| live.batcher.as_ref());
        let batched = match batcher.and_then(|batcher| batcher.run(Arc::clone(&call), self.deadline)) {
            Some(reply) => Some(reply.await),
            None => None,
        };
        let reply = match batched {
            // Nothing has run: it is sent on to the primary.
            Some(Some(Err(error))) if StoreError::classify(&error) == StoreError::ReadOnly => {
                self.send_alone(&call).await
            }
            Some(reply) => reply.map(|reply| reply.map_err(RequestError::from)),
            None => self.send_alone(&call).await,
        };
        self.finish(started, reply.map(|reply| reply.map(|value| read(&value))))
    }

    /// Sends a decision without others; `None`: the deadline passed. Boxed, so that the future of a batched call is below the
    /// 1 KB up to which the allocator has blocks at hand.
    fn send_alone<'r>(
        &'r mut self,
        call: &'r ScriptCall,
    ) -> Pin<Box<impl Future<Output = Option<Result<Value, RequestError>>>>> {
        self.client.context.stats.call_sizes.observe(call.requests);
        Box::pin(async move { timeout_at(self.deadline, self.send(Some(&call.script), &call.cmd())).await.ok() })
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
