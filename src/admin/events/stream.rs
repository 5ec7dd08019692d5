//! Body of `/api/events`.

use std::convert::Infallible;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame};
use tokio::sync::watch;

use crate::admin::deadline::Deadline;
use crate::admin::events::VIEWER_TIMEOUT;
use crate::admin::events::viewers::ViewerSlot;

/// Snapshots for one viewer. It buffers nothing: a snapshot is taken when the connection has room for it.
pub(in crate::admin) struct EventStream {
    next: Next,
    deadline: Deadline,
    _slot: ViewerSlot,
}

type Snapshots = watch::Receiver<Bytes>;

/// Next snapshot, with the receiver of those after it; `None` at the end.
type NextSnapshot = Pin<Box<dyn Future<Output = Option<(Bytes, Snapshots)>>>>;

enum Next {
    /// This event comes first.
    First(Bytes, Snapshots),
    /// A requested snapshot.
    Snapshot(NextSnapshot),
    Ended,
}

impl EventStream {
    /// Creates the stream. Each event moves the `deadline` of the connection.
    pub(super) fn new(mut snapshots: Snapshots, first: Bytes, slot: ViewerSlot, deadline: Deadline) -> Self {
        if !snapshots.borrow().is_empty() {
            snapshots.mark_changed();
        }
        Self { next: Next::First(first, snapshots), deadline, _slot: slot }
    }
}

async fn following(mut snapshots: Snapshots) -> Option<(Bytes, Snapshots)> {
    snapshots.changed().await.ok()?;
    let snapshot = snapshots.borrow_and_update().clone();
    Some((snapshot, snapshots))
}

impl Body for EventStream {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = &mut *self;
        let event = match std::mem::replace(&mut this.next, Next::Ended) {
            Next::First(first, snapshots) => {
                this.next = Next::Snapshot(Box::pin(following(snapshots)));
                first
            }
            Next::Snapshot(mut future) => {
                let Poll::Ready(snapshot) = future.as_mut().poll(cx) else {
                    this.next = Next::Snapshot(future);
                    return Poll::Pending;
                };
                match snapshot {
                    Some((snapshot, snapshots)) => {
                        this.next = Next::Snapshot(Box::pin(following(snapshots)));
                        snapshot
                    }
                    None => return Poll::Ready(None),
                }
            }
            Next::Ended => return Poll::Ready(None),
        };
        this.deadline.set(VIEWER_TIMEOUT);
        Poll::Ready(Some(Ok(Frame::data(event))))
    }
}

impl fmt::Debug for EventStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventStream").finish_non_exhaustive()
    }
}
