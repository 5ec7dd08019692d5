//! `/api/events`: one snapshot of the gateway a second, as server-sent events for the dashboard.
//!
//! One task records the rates of the last two minutes, and makes the snapshots while there are viewers, which share the bytes.
//! A viewer that is behind gets the latest snapshot only; a viewer that reads nothing for [`VIEWER_TIMEOUT`] is disconnected.

mod rates;
mod snapshot;
pub(super) mod viewers;

use std::convert::Infallible;
use std::future::ready;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{self, Stream, StreamExt};
use http::header::RETRY_AFTER;
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use http_body::Frame;
use http_body_util::{Either, Full, StreamBody};
use schemars::JsonSchema;
use serde::Serialize;
use thiserror::Error;
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior};

use self::rates::Rates;
use self::snapshot::Snapshot;
use self::viewers::{History, MAX_VIEWERS, ViewerSlot};
use crate::admin::access::port_needs_identity;
use crate::admin::admin_state::AdminState;
use crate::admin::connection_slots::Deadline;
use crate::admin::guard::{GuardError, check_change};
use crate::admin::reply::{Reply, problem, reply};
use tollgate_config::Config;
use tollgate_transport::executor::spawn_boxed;

/// Snapshots for one viewer. It buffers nothing: a snapshot is taken when the connection has room for it.
type EventStream = StreamBody<Pin<Box<dyn Stream<Item = Result<Frame<Bytes>, Infallible>>>>>;

/// Body of a response: complete, or a stream of events.
pub(super) type AdminBody = Either<Full<Bytes>, EventStream>;

/// Time between two snapshots.
const INTERVAL: Duration = Duration::from_secs(1);
/// Time that a viewer may take to read a snapshot.
const VIEWER_TIMEOUT: Duration = Duration::from_secs(10);
/// Field by which nginx passes parts of a response on as they come: it buffers responses otherwise.
const UNBUFFERED: HeaderName = HeaderName::from_static("x-accel-buffering");

/// Data of an event.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
pub(super) enum Event<'s> {
    /// First event: rates of the last two minutes.
    History(&'s History),
    Snapshot(&'s Snapshot<'s>),
    /// Last event.
    End {
        reason: &'static str,
    },
}

/// Refusal of a viewer.
#[derive(Debug, Error)]
enum ViewerError {
    #[error(transparent)]
    Guard(#[from] GuardError),
    #[error("the gateway is shutting down")]
    Draining,
    #[error("{MAX_VIEWERS} viewers receive events already; try again later")]
    Full,
}

/// Returns the stream of snapshots. A page of another origin is refused: it could not read the events, but could take
/// all slots.
pub(super) fn respond(headers: &HeaderMap, state: &Arc<AdminState>, deadline: Deadline) -> Response<AdminBody> {
    let config = state.config.load();
    let slot = match check_change(config.management.origin.as_ref(), headers)
        .map_err(ViewerError::from)
        .and_then(|()| take_slot(state))
    {
        Ok(slot) => slot,
        Err(error) => return refusal(&error).map(Either::Left),
    };
    let mut response = reply(StatusCode::OK, "text/event-stream", Bytes::new());
    response.headers_mut().insert(UNBUFFERED, HeaderValue::from_static("no"));
    let (snapshots, history) = subscribe(state);
    let events = events(snapshots, Event::History(&history).text(), slot, deadline);
    response.map(|_| Either::Right(events))
}

/// Returns the events of one viewer: `first`, then snapshots. Each moves the `deadline` of the connection.
fn events(mut snapshots: watch::Receiver<Bytes>, first: Bytes, slot: ViewerSlot, deadline: Deadline) -> EventStream {
    if !snapshots.borrow().is_empty() {
        snapshots.mark_changed();
    }
    let following = stream::unfold((snapshots, slot), async |(mut snapshots, slot)| {
        snapshots.changed().await.ok()?;
        let snapshot = snapshots.borrow_and_update().clone();
        Some((snapshot, (snapshots, slot)))
    });
    let events = stream::once(ready(first)).chain(following).map(move |event| {
        deadline.set(VIEWER_TIMEOUT);
        Ok(Frame::data(event))
    });
    StreamBody::new(Box::pin(events))
}

fn refusal(error: &ViewerError) -> Reply {
    let status = match error {
        ViewerError::Guard(_) => StatusCode::FORBIDDEN,
        ViewerError::Draining | ViewerError::Full => StatusCode::SERVICE_UNAVAILABLE,
    };
    let mut response = problem(status, &error.to_string());
    if matches!(error, ViewerError::Full) {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("10"));
    }
    response
}

/// Starts to record the history, so that the first viewer finds one.
pub(super) fn record(state: &Arc<AdminState>) {
    let _ = subscribe(state);
}

/// Returns the snapshots from now on, and the history before. Starts the task if it does not run.
fn subscribe(state: &Arc<AdminState>) -> (watch::Receiver<Bytes>, History) {
    let mut shared = state.events.lock();
    let history = shared.history.clone();
    if let Some(snapshots) = &shared.snapshots {
        return (snapshots.clone(), history);
    }
    let (sender, snapshots) = watch::channel(Bytes::new());
    shared.snapshots = Some(snapshots.clone());
    spawn_boxed(publish(Arc::clone(state), sender));
    (snapshots, history)
}

/// Adds to the history every second, and publishes a snapshot if there are viewers, until the gateway shuts down.
///
/// A reload may have removed the token of a viewer: on a port that asks for one before or after it, all viewers must
/// connect again.
async fn publish(state: Arc<AdminState>, mut sender: watch::Sender<Bytes>) {
    let mut ticks = tokio::time::interval(INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut rates = Rates::default();
    let needs_identity = |config: &Config| port_needs_identity(state.address, &config.management);
    // The configuration itself is not kept beyond a reload.
    let observed = |config: Arc<Config>| (Arc::downgrade(&config), needs_identity(&config));
    let (mut config, mut needed_identity) = observed(state.config.load_full());
    loop {
        ticks.tick().await;
        let is_draining = state.draining.load(Relaxed);
        let latest = state.config.load_full();
        let is_changed = config.as_ptr() != Arc::as_ptr(&latest);
        let is_replaced = is_changed && (needed_identity || needs_identity(&latest));
        let is_watched = state.events.lock().viewers > 0;
        let snapshot = if is_watched { snapshot::take(&state, &mut rates).await } else { Bytes::new() };
        if !is_watched {
            rates.add_unwatched(Instant::now(), state.metrics.totals());
        }
        let mut shared = state.events.lock();
        shared.history.push(rates.current());
        if is_draining || is_replaced {
            let reason = if is_draining { "the gateway is shutting down" } else { "the configuration was reloaded" };
            sender.send_replace([snapshot, Event::End { reason }.text()].concat().into());
            shared.snapshots = None;
            if is_draining {
                return;
            }
            let (next, snapshots) = watch::channel(Bytes::new());
            shared.snapshots = Some(snapshots);
            (sender, (config, needed_identity)) = (next, observed(latest));
            continue;
        }
        sender.send_replace(snapshot);
    }
}

impl Event<'_> {
    /// Returns the server-sent event. JSON has no line breaks.
    fn text(&self) -> Bytes {
        let name = match self {
            Self::History(_) => "history",
            Self::Snapshot(_) => "snapshot",
            Self::End { .. } => "end",
        };
        let data = serde_json::to_string(self).unwrap_or_default();
        format!("event: {name}\ndata: {data}\n\n").into()
    }
}

/// Takes a slot for a viewer.
fn take_slot(state: &AdminState) -> Result<ViewerSlot, ViewerError> {
    if state.draining.load(Relaxed) {
        return Err(ViewerError::Draining);
    }
    ViewerSlot::take(&state.events).ok_or(ViewerError::Full)
}
