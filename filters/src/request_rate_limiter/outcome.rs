//! Next step for a request, and the report for its response.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use http::Response;

use super::check_set::{CheckSet, StagedVerdictFuture, VerdictFuture};
use super::enforcement::Stage;
use super::settlement::Reservation;
use tollgate_limiter::verdict::Verdict;

/// Next step for a request.
pub(super) enum Action<R> {
    Refuse(Response<R>),
    /// Calls the inner service; `None` if the response needs no change.
    Forward(Option<Report>),
    /// Calls the overflow service, since the request was denied (`on-limit`).
    Overflow(Report),
    /// Waits for the name of the request's plan.
    AwaitPlan(PlanFuture),
    /// Waits for the store.
    AwaitVerdict(PendingVerdict),
    /// Waits for the store's verdicts on enforced and observed rules.
    AwaitStages(PendingStages),
}

pub(super) type PlanFuture = Pin<Box<dyn Future<Output = Option<Arc<str>>> + Send>>;

/// Checks that the store has not decided yet.
pub(super) struct PendingVerdict {
    pub(super) verdict: VerdictFuture,
    pub(super) check_set: CheckSet,
    pub(super) stage: Stage,
    /// Report of the previous stage.
    pub(super) report: Option<Box<Report>>,
}

/// Enforced and observed checks that the store has not decided yet.
pub(super) struct PendingStages {
    pub(super) verdict: StagedVerdictFuture,
    pub(super) check_sets: [CheckSet; 2],
}

/// Data for the response's headers, and reservations to settle.
#[derive(Default)]
pub(super) struct Report {
    pub(super) verdict: Option<(CheckSet, Verdict)>,
    pub(super) extra: Option<Box<ExtraReport>>,
}

/// Parts of a report that few requests have.
#[derive(Default)]
pub(super) struct ExtraReport {
    pub(super) would_deny: Option<Arc<str>>,
    pub(super) reservations: Vec<Reservation>,
    pub(super) delay: Option<PacingDelay>,
}

/// Delay of a paced request, and the slots that it gives back if it is cancelled before.
pub(super) struct PacingDelay {
    pub(super) delay: Duration,
    pub(super) slots: Vec<Reservation>,
}
