//! Many calls at once, each with keys of its own, in one write to each node.

use std::sync::Arc;

use redis::{Cmd, Pipeline, RedisError, Value};
use tokio::task::JoinSet;
use tokio::time::{Duration, Instant, sleep};

use super::outcome::Unanswered;
use super::request::Request;
use super::send::MAX_REDIRECTS;
use super::{CLUSTER, RedisClient};
use crate::store::redis::connection::ScriptForm;
use crate::store::redis::error::StoreError;
use crate::store::redis::hash_slot::HashSlot;
use crate::store::redis::script::Script;
use crate::store::redis::stats::Operation;
use crate::store::redis::topology::{Node, Redirect};

/// Pause before calls are repeated while only some of their keys have migrated.
const TRY_AGAIN_PAUSE: Duration = Duration::from_millis(5);

/// Calls for one node, as indices among all calls.
struct NodeCalls {
    node: Arc<Node>,
    asking: bool,
    calls: Vec<usize>,
}

/// Calls of one [`RedisClient::run_all`] and their results so far.
struct FanOut<'c> {
    client: &'c RedisClient,
    operation: Operation,
    script: &'c Script,
    calls: &'c [(HashSlot, Cmd)],
    deadline: Instant,
    results: Vec<Result<Value, Unanswered>>,
    /// Calls to send next: to the node that serves their slot, or with `ASKING` to the one that imports it.
    waiting: Vec<(usize, Option<Arc<Node>>)>,
    /// Form of the calls to send next.
    form: ScriptForm,
    /// True if a call must wait for the migration of its keys.
    pauses: bool,
}

impl RedisClient {
    /// Sends all `calls` of `script`, each with the slot of its keys, within the time of one call. Returns the replies in
    /// their order. Each server gets one write; a failing server affects only its own calls. Redirections are followed.
    pub(crate) async fn run_all(
        &self,
        operation: Operation,
        script: &Script,
        calls: &[(HashSlot, Cmd)],
    ) -> Vec<Result<Value, Unanswered>> {
        let results = calls.iter().map(|_| Err(StoreError::ClusterDown.unsent())).collect();
        let waiting = (0..calls.len()).map(|call| (call, None)).collect();
        let deadline = self.deadline();
        let (form, pauses) = (ScriptForm::Hash, false);
        let mut fan_out = FanOut { client: self, operation, script, calls, deadline, results, waiting, form, pauses };
        for _ in 0..=MAX_REDIRECTS {
            fan_out.send_waiting().await;
            if fan_out.waiting.is_empty() || Instant::now() >= deadline {
                break;
            }
            if std::mem::take(&mut fan_out.pauses) {
                sleep(TRY_AGAIN_PAUSE).await;
            }
        }
        if !fan_out.waiting.is_empty() {
            self.context().record_failure(operation, CLUSTER, StoreError::ClusterDown, None);
        }
        fan_out.results
    }
}

impl FanOut<'_> {
    /// Sends the waiting calls and records their results.
    async fn send_waiting(&mut self) {
        let (nodes, form) = (self.by_node(), self.form);
        for (sent, replies) in self.send_all(nodes).await {
            match replies {
                Err(unanswered) => sent.calls.iter().for_each(|&call| self.results[call] = Err(unanswered)),
                Ok(replies) => {
                    for (&call, reply) in sent.calls.iter().zip(replies) {
                        match reply.extract_error() {
                            Ok(value) => self.results[call] = Ok(value),
                            Err(error) => self.record_error(call, &error, &sent.node, form),
                        }
                    }
                }
            }
        }
    }

    /// Records an error reply to a call in `form`: it did not run, or not to its end. A call of an unknown script and a
    /// redirected call wait to be sent again.
    fn record_error(&mut self, call: usize, error: &RedisError, node: &Node, form: ScriptForm) {
        self.results[call] = Err(StoreError::classify(error).unsent());
        if let Some(form) = form.after(error) {
            self.form = form;
            return self.waiting.push((call, None));
        }
        match Redirect::parse(error, node.host()) {
            Some(Redirect::TryAgain) => {
                self.pauses = true;
                self.waiting.push((call, None));
            }
            Some(redirect) => {
                let Some(node) = self.client.topology().follow(&redirect) else { return };
                let is_importing = matches!(redirect, Redirect::Ask(_));
                self.waiting.push((call, Some(node).filter(|_| is_importing)));
            }
            None => {}
        }
    }

    /// Takes the waiting calls, grouped by node. Calls without a node have failed.
    fn by_node(&mut self) -> Vec<NodeCalls> {
        let mut nodes: Vec<NodeCalls> = Vec::new();
        for (call, importing) in std::mem::take(&mut self.waiting) {
            let asking = importing.is_some();
            let route = || self.client.inner.route(self.operation, || self.calls[call].0);
            match importing.map_or_else(route, Ok) {
                Err(kind) => self.results[call] = Err(kind.unsent()),
                Ok(node) => {
                    match nodes.iter_mut().find(|group| Arc::ptr_eq(&group.node, &node) && group.asking == asking) {
                        Some(group) => group.calls.push(call),
                        None => nodes.push(NodeCalls { node, asking, calls: vec![call] }),
                    }
                }
            }
        }
        nodes
    }

    /// Sends to all nodes at once and waits for all replies, without those to commands that only accompany the calls.
    async fn send_all(&self, nodes: Vec<NodeCalls>) -> Vec<(NodeCalls, Result<Vec<Value>, Unanswered>)> {
        let mut sent = JoinSet::new();
        for calls in nodes {
            let (form, pipeline) = (self.form, calls.pipeline(self.script, self.form, self.calls));
            let request = Request::begin(&self.client.inner, Arc::clone(&calls.node), self.operation, self.deadline);
            sent.spawn(async move {
                let replies = match request {
                    Ok(request) => request.run_pipeline(&pipeline, form).await,
                    Err(kind) => Err(kind.unsent()),
                };
                let step = if calls.asking { 2 } else { 1 };
                let first = step - 1 + usize::from(form == ScriptForm::Loaded);
                (calls, replies.map(|replies| replies.into_iter().skip(first).step_by(step).collect()))
            });
        }
        let mut replied = Vec::with_capacity(sent.len());
        while let Some(node) = sent.join_next().await {
            replied.extend(node);
        }
        replied
    }
}

impl NodeCalls {
    /// Pipeline of the calls in `form`.
    fn pipeline(&self, script: &Script, form: ScriptForm, calls: &[(HashSlot, Cmd)]) -> Pipeline {
        let mut pipeline = Pipeline::with_capacity(2 * self.calls.len() + 1);
        if form == ScriptForm::Loaded {
            pipeline.add_command(script.load());
        }
        for &call in &self.calls {
            if self.asking {
                pipeline.add_command(redis::cmd("ASKING"));
            }
            let cmd = &calls[call].1;
            pipeline.add_command(if form == ScriptForm::Text { script.eval(cmd) } else { cmd.clone() });
        }
        pipeline
    }
}
