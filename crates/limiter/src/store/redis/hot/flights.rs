//! Who asks what at this moment, and who waits to ask the same.
//!
//! The first to ask calls by itself. Whoever asks the same before that call is back waits for a task that asks for all
//! who wait at a time, again and again until nobody does. So nobody depends on another request, which may be given up:
//! only on that task, and should that break, its waiters learn it at once.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::super::error::StoreError;
use super::super::ticket::Ticket;
use super::question::Question;
use super::{Hot, flight};
use crate::verdict::Verdict;

/// Requests that wait for one question at most: whoever comes then calls by itself.
const MOST_WAITING: usize = 4_096;

/// Questions under way, by their identity. Without a queue only one request asks; with one, a task asks for the queue.
#[derive(Default)]
pub(super) struct Flights(Mutex<HashMap<u128, Option<VecDeque<Waiter>>>>);

/// A request that waits for an answer.
pub(super) struct Waiter {
    pub(super) ticket: Ticket,
    pub(super) answer: oneshot::Sender<Result<Verdict, StoreError>>,
}

/// How a question is asked.
pub(in super::super) enum Boarding {
    /// By the request itself; others who ask the same meanwhile know of it.
    Alone(Ticket, Option<Alone>),
    /// Along with others; the answer is of use until the deadline.
    Along(oneshot::Receiver<Result<Verdict, StoreError>>, Instant),
}

/// A request that asks by itself; dropped when it knows, or does not want to know any more.
pub(in super::super) struct Alone {
    hot: Arc<Hot>,
    question: u128,
}

// === impl Flights ===

impl Flights {
    /// Asks with `ticket`, alone or along with others; `question` is what they ask. With `along` even the first one
    /// waits for the task.
    pub(super) fn board(
        &self,
        hot: &Arc<Hot>,
        identity: u128,
        ticket: Ticket,
        along: bool,
        question: impl FnOnce() -> Question,
    ) -> Boarding {
        let mut flights = self.0.lock();
        let queue = match flights.entry(identity) {
            Entry::Vacant(vacant) => {
                let queue = vacant.insert(None);
                if !along {
                    return Boarding::Alone(ticket, Some(Alone { hot: Arc::clone(hot), question: identity }));
                }
                queue
            }
            Entry::Occupied(queue) => queue.into_mut(),
        };
        if queue.is_none() {
            let Ok(runtime) = Handle::try_current() else { return Boarding::Alone(ticket, None) };
            runtime.spawn(flight::run(Arc::clone(hot), Arc::new(question())));
        }
        let queue = queue.get_or_insert_default();
        if queue.len() >= MOST_WAITING {
            return Boarding::Alone(ticket, None);
        }
        let (answer, answered) = oneshot::channel();
        let deadline = ticket.deadline();
        queue.push_back(Waiter { ticket, answer });
        Boarding::Along(answered, deadline)
    }

    /// The next `most` who wait, in the order in which they came; `None` when nobody does: the task is over then.
    pub(super) fn next(&self, identity: u128, most: usize) -> Option<Vec<Waiter>> {
        let mut flights = self.0.lock();
        let waiters: Vec<Waiter> = {
            let queue = flights.get_mut(&identity)?.as_mut()?;
            let wanted = |waiter: &Waiter| {
                let gave_up = waiter.answer.is_closed();
                if gave_up && waiter.is_late() {
                    waiter.ticket.was_late();
                }
                !gave_up
            };
            std::iter::from_fn(|| queue.pop_front()).filter(wanted).take(most).collect()
        };
        if waiters.is_empty() {
            flights.remove(&identity);
            return None;
        }
        Some(waiters)
    }

    /// Puts those back in front who were not served.
    pub(super) fn put_back(&self, identity: u128, waiters: Vec<Waiter>) {
        if let Some(Some(queue)) = self.0.lock().get_mut(&identity) {
            waiters.into_iter().rev().for_each(|waiter| queue.push_front(waiter));
        }
    }

    /// Lets go of all who wait: their task broke.
    pub(super) fn abandon(&self, identity: u128) {
        let waiters = self.0.lock().remove(&identity);
        drop(waiters);
    }
}

impl Waiter {
    pub(super) fn is_late(&self) -> bool {
        self.ticket.deadline() <= Instant::now()
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        let mut flights = self.hot.flights.0.lock();
        if flights.get(&self.question).is_some_and(Option::is_none) {
            flights.remove(&self.question);
        }
    }
}
