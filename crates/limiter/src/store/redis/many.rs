//! Many calls at once, each on keys of its own.

use std::sync::Arc;

use redis::{Cmd, Pipeline, Value};
use tokio::task::JoinSet;
use tokio::time::{Duration, Instant, sleep};

use super::client::RedisClient;
use super::error::StoreError;
use super::hash_slot::HashSlot;
use super::node::Node;
use super::redirect::Redirect;
use super::script::Script;
use super::shared::Shared;
use super::stats::Operation;
use super::ticket::HOPS;

/// The pause before calls are sent again of which only some keys were moved yet.
const TRY_AGAIN_AFTER: Duration = Duration::from_millis(5);

/// A call that has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unanswered {
    /// Why.
    pub(crate) kind: StoreError,
    /// Whether it was sent, and may have run.
    pub(crate) may_have_run: bool,
}

/// Where a call is to be sent.
#[derive(Clone)]
enum Target {
    /// To whoever keeps its slot.
    Keeper,
    /// To a node that does not yet.
    Guest(Arc<Node>),
}

/// What is sent to one node in one write: the places of the calls among all.
struct Parcel {
    node: Arc<Node>,
    asking: bool,
    calls: Vec<usize>,
}

impl RedisClient {
    /// Makes all `calls`, which are of `script`, each on keys of the slot beside it, within the time of one; returns their
    /// answers in their order. What goes to one server is one write; one server that fails is of no concern to
    /// calls of others. A call that a node of a cluster sends elsewhere has not run there, and is sent on.
    pub(crate) async fn run_all(
        &self,
        operation: Operation,
        script: &Script,
        calls: &[(HashSlot, Cmd)],
    ) -> Vec<Result<Value, Unanswered>> {
        let deadline = self.deadline();
        let mut answers: Vec<_> = calls.iter().map(|_| Err(StoreError::ClusterDown.unsent())).collect();
        let mut waiting: Vec<_> = (0..calls.len()).map(|call| (call, Target::Keeper)).collect();
        for _ in 0..=HOPS {
            let parcels = self.parcels(operation, calls, waiting, &mut answers);
            waiting = Vec::new();
            let mut pauses = false;
            for (parcel, replies) in self.send_all(operation, parcels, script, calls, deadline).await {
                match replies {
                    Err(unanswered) => parcel.calls.iter().for_each(|&call| answers[call] = Err(unanswered)),
                    Ok(replies) => {
                        for (call, reply) in parcel.calls.into_iter().zip(replies) {
                            let error = match reply.extract_error() {
                                Ok(value) => {
                                    answers[call] = Ok(value);
                                    continue;
                                }
                                Err(error) => error,
                            };
                            // An error in place of an answer: it did not run, or not to its end.
                            answers[call] = Err(StoreError::of(&error).unsent());
                            let redirect = Redirect::of(&error, parcel.node.host());
                            match redirect.as_ref() {
                                Some(Redirect::TryAgain) => {
                                    pauses = true;
                                    waiting.push((call, Target::Keeper));
                                }
                                Some(redirect) => {
                                    let node = Shared::follow(self.shared(), redirect);
                                    let is_guest = matches!(redirect, Redirect::Ask(_));
                                    let target =
                                        node.map(|node| if is_guest { Target::Guest(node) } else { Target::Keeper });
                                    waiting.extend(target.map(|target| (call, target)));
                                }
                                None => {}
                            }
                        }
                    }
                }
            }
            if waiting.is_empty() || Instant::now() >= deadline {
                break;
            }
            if pauses {
                sleep(TRY_AGAIN_AFTER).await;
            }
        }
        if !waiting.is_empty() {
            self.shared().degraded(operation, "cluster", StoreError::ClusterDown);
        }
        answers
    }

    /// The calls by their nodes. Those that no node keeps the keys of have failed.
    fn parcels(
        &self,
        operation: Operation,
        calls: &[(HashSlot, Cmd)],
        waiting: Vec<(usize, Target)>,
        answers: &mut [Result<Value, Unanswered>],
    ) -> Vec<Parcel> {
        let mut parcels: Vec<Parcel> = Vec::new();
        for (call, target) in waiting {
            let (node, asking) = match target {
                Target::Guest(node) => (Ok(node), true),
                Target::Keeper => (self.shared().route(operation, || calls[call].0), false),
            };
            match node {
                Err(kind) => answers[call] = Err(kind.unsent()),
                Ok(node) => {
                    match parcels.iter_mut().find(|known| Arc::ptr_eq(&known.node, &node) && known.asking == asking) {
                        Some(known) => known.calls.push(call),
                        None => parcels.push(Parcel { node, asking, calls: vec![call] }),
                    }
                }
            }
        }
        parcels
    }

    /// Sends all parcels at once, and waits for the answers to all, each without those that the caller did not ask for.
    async fn send_all(
        &self,
        operation: Operation,
        parcels: Vec<Parcel>,
        script: &Script,
        calls: &[(HashSlot, Cmd)],
        deadline: Instant,
    ) -> Vec<(Parcel, Result<Vec<Value>, Unanswered>)> {
        let mut sent = JoinSet::new();
        for parcel in parcels {
            let pipeline = parcel.pipeline(script, calls);
            let ticket = Shared::leave(self.shared(), Arc::clone(&parcel.node), operation, deadline);
            sent.spawn(async move {
                let replies = match ticket {
                    Ok(ticket) => {
                        let unanswered = |kind| Unanswered { kind, may_have_run: true };
                        ticket.pipeline(&pipeline).await.map_err(unanswered)
                    }
                    Err(kind) => Err(kind.unsent()),
                };
                let step = if parcel.asking { 2 } else { 1 };
                (parcel, replies.map(|replies| replies.into_iter().skip(step).step_by(step).collect()))
            });
        }
        let mut answered = Vec::with_capacity(sent.len());
        while let Some(parcel) = sent.join_next().await {
            answered.extend(parcel);
        }
        answered
    }
}

impl Parcel {
    /// The script goes first: a node may have forgotten it, and some calls might have run by the time when another finds
    /// that out.
    fn pipeline(&self, script: &Script, calls: &[(HashSlot, Cmd)]) -> Pipeline {
        let mut pipeline = Pipeline::with_capacity(2 * self.calls.len() + 1);
        pipeline.add_command(script.load());
        for &call in &self.calls {
            if self.asking {
                pipeline.add_command(redis::cmd("ASKING"));
            }
            pipeline.add_command(calls[call].1.clone());
        }
        pipeline
    }
}

impl StoreError {
    fn unsent(self) -> Unanswered {
        Unanswered { kind: self, may_have_run: false }
    }
}
