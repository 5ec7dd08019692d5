//! Outcome of a request, counted for or against its connection and breaker.

use redis::RedisError;
use tokio::time::Instant;

use super::request::{Request, RequestError};
use crate::store::redis::error::{StoreError, describe};
use crate::store::redis::stats::Operation;

/// Failure of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{kind}")]
pub struct Unanswered {
    /// Reason.
    pub kind: StoreError,
    /// True if the call was sent and may have run.
    pub may_have_run: bool,
}

impl From<Unanswered> for StoreError {
    fn from(unanswered: Unanswered) -> Self {
        unanswered.kind
    }
}

impl StoreError {
    /// Returns the failure of a call that has certainly not run.
    pub(crate) fn unsent(self) -> Unanswered {
        Unanswered { kind: self, may_have_run: false }
    }

    /// Returns the failure of a call that may have run.
    fn unconfirmed(self) -> Unanswered {
        Unanswered { kind: self, may_have_run: true }
    }
}

impl Request {
    pub(super) fn record_reply(&self) {
        if let Some((slot, _)) = self.connection {
            self.node.slots[slot].record_reply();
        }
        self.node.breaker.record_success();
    }

    /// Counts the outcome: nothing by the deadline (`None`), an error, an invalid reply, or a valid one.
    pub(super) fn finish<T>(
        &self,
        started: Instant,
        result: Option<Result<Option<T>, RequestError>>,
    ) -> Result<T, Unanswered> {
        self.client.context.stats.record_latency(self.operation, started.elapsed());
        let Some((slot, live)) = &self.connection else {
            let kind = match result {
                Some(Err(RequestError::NotSent(kind))) => kind,
                // The attempt to connect takes longer than a call may wait.
                _ => {
                    self.node.breaker.record_failure(StoreError::Disconnected);
                    StoreError::Disconnected
                }
            };
            // A node that redirected the call has not run it.
            return Err(self.record_failure(kind, None).unsent());
        };
        let (slot, id) = (*slot, live.id);
        Err(match result {
            Some(Ok(Some(reply))) => {
                self.record_reply();
                return Ok(reply);
            }
            // An invalid reply: the connection may be out of step.
            Some(Ok(None)) => {
                self.node.drop_connection(slot, id);
                self.fail(StoreError::Other).unconfirmed()
            }
            Some(Err(RequestError::NotSent(kind))) => self.fail(kind).unsent(),
            Some(Err(RequestError::Redis(error))) => {
                let may_have_run = error.code().is_none();
                Unanswered { kind: self.fail_with(&error, slot, id), may_have_run }
            }
            // The script may have run, so the call is not sent again.
            None => {
                if self.node.slots[slot].record_timeout(id) {
                    self.node.drop_connection(slot, id);
                }
                self.client.context.refresh_slots();
                self.fail(StoreError::Timeout).unconfirmed()
            }
        })
    }

    /// Counts an error by what it says about the node.
    fn fail_with(&self, error: &RedisError, slot: usize, id: u64) -> StoreError {
        let kind = StoreError::classify(error);
        if kind == StoreError::Disconnected {
            self.node.record_end(slot, id);
        } else if error.is_unrecoverable_error() || kind == StoreError::ReadOnly {
            self.node.drop_connection(slot, id);
        } else {
            self.node.slots[slot].record_reply();
        }
        if matches!(kind, StoreError::ReadOnly | StoreError::ClusterDown) {
            self.client.context.refresh_slots();
        }
        let is_reply = error.code().is_some();
        if !self.operation.serves_requests() && (is_reply || self.operation == Operation::Info) {
            // Missing permissions for this operation say nothing about decisions.
            return kind;
        }
        let concerns_one_key =
            matches!(kind, StoreError::Other | StoreError::Clocks | StoreError::ClusterDown | StoreError::NoPerm);
        if is_reply && concerns_one_key {
            // Redis replies: an error of one key must not send all others to the fallback.
            self.node.breaker.record_success();
            let detail = match kind {
                StoreError::NoPerm => Some(describe(error)),
                StoreError::Other if error.code() == Some("WRONGTYPE") => Some(describe(error)),
                StoreError::ClusterDown if !self.client.topology.is_cluster() => {
                    Some("the server belongs to a cluster: list its nodes as those of a cluster".into())
                }
                _ => None,
            };
            return self.record_failure(kind, detail.as_deref());
        }
        if kind == StoreError::NoScripts {
            // Calls without scripts may go on.
            self.node.set_lacks_scripts(true);
            return self.record_failure(kind, None);
        }
        self.fail(kind)
    }

    /// Counts a failure against the breaker.
    fn fail(&self, kind: StoreError) -> StoreError {
        self.node.breaker.record_failure(kind);
        self.record_failure(kind, None)
    }

    fn record_failure(&self, kind: StoreError, detail: Option<&str>) -> StoreError {
        self.client.context.record_failure(self.operation, &self.node.name, kind, detail);
        kind
    }
}
