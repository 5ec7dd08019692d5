//! Reads from HTTP/1.1 upstreams: when, and how much at once.
//!
//! A large read saves system calls, but a client that stops reading holds what was read. So the next part of a response
//! is read when the client has taken the one before. Reads are small at first. They grow while they are filled, up to an
//! equal share of a budget for the connections of a worker that read large responses: no tunnels or event streams. The
//! connections of a worker live on one thread, and so do their sums.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Waker};

use crate::http::sockets::part;

/// Bytes that the buffers of a worker's connections may have, beyond the smallest ones: half the largest buffer for each of
/// 16 connections. The allocator may keep as much again, of buffers that were replaced by larger ones.
const BUDGET: usize = 16 * (MAX / 2 - MIN);
/// Smallest buffer, which hyper starts with.
const MIN: usize = 8 * 1024;
/// Largest buffer.
pub const MAX: usize = 256 * 1024;

thread_local! {
    /// Sum of the buffers, beyond the smallest ones.
    static SPENT: Cell<usize> = const { Cell::new(0) };
    /// Number of connections that are reading a large response.
    static READING: Cell<usize> = const { Cell::new(0) };
}

/// Reads of one connection. All clones share them.
#[derive(Clone, Debug, Default)]
pub struct ReadAhead(Arc<Reads>);

/// State of a connection's reads. It is atomic because hyper requires an upgradable socket to be `Send`. A single thread
/// uses it.
#[derive(Debug, Default)]
struct Reads {
    /// Size of the buffer beyond [`MIN`], counted until the connection is closed.
    grown: AtomicUsize,
    is_reading: AtomicBool,
    /// True from the first full read of a response to its end.
    is_large: AtomicBool,
    /// True while hyper replaces its buffer with a smaller one.
    is_shrinking: AtomicBool,
    /// Longest read, from which on hyper's buffer may grow.
    longest: AtomicUsize,
    /// True if the latest read was the longest.
    is_growing: AtomicBool,
    /// True while a part of the response waits for the client.
    is_held: AtomicBool,
    /// True if the connection has nothing to write during the response.
    only_reads: AtomicBool,
    /// True when no further request follows.
    is_closing: AtomicBool,
    /// Task of the connection, once it has waited for the client.
    task: OnceLock<Waker>,
}

impl ReadAhead {
    /// Begins the response to a request. The connection `only_reads` then if the request has no body.
    pub fn start(&self, only_reads: bool) {
        let reads = &*self.0;
        reads.is_reading.store(true, Relaxed);
        reads.only_reads.store(only_reads, Relaxed);
        reads.is_held.store(false, Relaxed);
        let size = reads.size();
        let is_shrinking = size > share() && SPENT.get() > BUDGET / 8 * 7;
        reads.is_shrinking.store(is_shrinking, Relaxed);
        if is_shrinking {
            reads.longest.store(0, Relaxed);
            reads.resize(size / 2);
        }
    }

    /// Ends the response.
    pub fn finish(&self) {
        self.0.finish();
        self.resume();
    }

    /// Notes that no further request follows.
    pub fn close(&self) {
        self.0.is_closing.store(true, Relaxed);
    }

    /// True between two responses: the request has been written to its end, and the response read to its end. Then only
    /// bytes, a request or the end of the connection give it something to do.
    #[must_use]
    pub fn is_at_rest(&self) -> bool {
        let Reads { is_reading, only_reads, is_closing, .. } = &*self.0;
        only_reads.load(Relaxed) && !is_reading.load(Relaxed) && !is_closing.load(Relaxed)
    }

    /// Stops the reads: the client has not taken the latest part of the response.
    pub fn hold(&self) {
        self.0.is_held.store(true, Relaxed);
    }

    /// Goes on with the reads.
    pub fn resume(&self) {
        if self.0.is_held.swap(false, Relaxed)
            && let Some(task) = self.0.task.get()
        {
            task.wake_by_ref();
        }
    }

    /// Returns true while the reads are stopped. The current task, which is the connection's, is woken when they go on.
    #[must_use]
    pub fn is_held(&self, cx: &Context<'_>) -> bool {
        let is_held = self.0.is_held.load(Relaxed);
        if is_held {
            self.0.task.get_or_init(|| cx.waker().clone());
        }
        is_held
    }

    /// Returns true while the reads are stopped and the connection has nothing to write either. Before a read hyper
    /// allocates a buffer if the latest part is still in use, so it is not even polled then.
    #[must_use]
    pub fn is_idle(&self, cx: &Context<'_>) -> bool {
        self.0.only_reads.load(Relaxed) && self.is_held(cx)
    }

    /// Returns true if the latest part of the response must be kept until the next one has been read: hyper replaces its
    /// buffer then. It would extend a buffer of which no part is in use to twice the size.
    #[must_use]
    pub fn is_resizing(&self) -> bool {
        self.0.is_shrinking.load(Relaxed) || self.0.is_growing.load(Relaxed)
    }

    /// Returns the largest number of bytes to read now: a [`part`] of the buffer. hyper doubles a buffer that was filled.
    #[must_use]
    pub fn limit(&self) -> usize {
        part(self.0.size())
    }

    /// Notes a read of `length` bytes. The next one may be larger if this one reached the limit. The smallest buffer grows
    /// at the second such read of a response only: of responses that begin together, all count when the first grows.
    pub fn read(&self, length: usize) {
        if length < part(MIN) {
            return;
        }
        let is_longest = length > self.0.longest.load(Relaxed);
        self.0.is_growing.store(is_longest, Relaxed);
        if is_longest {
            self.0.longest.store(length, Relaxed);
        }
        let size = self.0.size();
        if length < part(size) {
            return;
        }
        let is_first = !self.0.is_large.swap(true, Relaxed);
        if is_first {
            READING.set(READING.get() + 1);
        }
        if size < MAX && !(is_first && size == MIN) && 2 * size <= share() && SPENT.get() + size <= BUDGET {
            self.0.resize(2 * size);
        }
    }
}

impl Reads {
    fn size(&self) -> usize {
        MIN + self.grown.load(Relaxed)
    }

    fn resize(&self, size: usize) {
        let grown = size.saturating_sub(MIN);
        let before = self.grown.swap(grown, Relaxed);
        SPENT.set((SPENT.get() + grown).saturating_sub(before));
    }

    fn finish(&self) {
        self.is_reading.store(false, Relaxed);
        if self.is_large.swap(false, Relaxed) {
            READING.set(READING.get().saturating_sub(1));
        }
    }
}

impl Drop for Reads {
    fn drop(&mut self) {
        self.finish();
        self.resize(MIN);
    }
}

/// Returns the equal share of a connection that is reading a large response.
fn share() -> usize {
    MIN + BUDGET / READING.get().max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fills the reads of a connection until they grow no more, and returns their size.
    fn fill(connection: &ReadAhead) -> usize {
        for _ in 0..10 {
            connection.read(connection.limit());
        }
        connection.0.size()
    }

    fn start(count: usize) -> Vec<ReadAhead> {
        let connections: Vec<ReadAhead> = (0..count).map(|_| ReadAhead::default()).collect();
        connections.iter().for_each(|connection| connection.start(true));
        connections
    }

    #[test]
    fn reads_grow_to_equal_shares_while_they_are_filled() {
        for (count, size) in [(1, MAX), (7, MAX), (16, MAX / 2), (80, MAX / 8), (1000, MIN)] {
            let connections = start(count);
            assert_eq!(connections[0].limit(), part(MIN));
            connections[0].read(MIN / 2);
            assert_eq!(connections[0].limit(), part(MIN), "a small response");
            connections.iter().for_each(|connection| connection.read(part(MIN)));
            assert!(connections.iter().all(|connection| fill(connection) == size), "{connections:?}");
            assert!(SPENT.get() <= BUDGET, "{}", SPENT.get());
            drop(connections);
            assert_eq!((SPENT.get(), READING.get()), (0, 0));
        }
    }

    #[test]
    fn connections_without_a_large_response_take_no_share() {
        let connections = start(1000);
        assert_eq!(fill(&connections[0]), MAX);
    }

    #[test]
    fn early_connections_never_make_the_sum_exceed_the_budget_and_give_back_at_their_next_response() {
        let mut connections = Vec::new();
        for _ in 0..1000 {
            let connection = start(1).remove(0);
            fill(&connection);
            connections.push(connection);
        }
        assert_eq!((connections[0].limit(), connections[999].limit()), (part(MAX), part(MIN)));
        assert!((BUDGET / 2..=BUDGET).contains(&SPENT.get()), "{}", SPENT.get());
        for size in [MAX / 2, MAX / 4, MAX / 8, MAX / 16, MAX / 16] {
            fill(&connections[999]);
            connections[0].finish();
            connections[0].start(true);
            assert_eq!(connections[0].limit(), part(size));
        }
        drop(connections);
        assert_eq!((SPENT.get(), READING.get()), (0, 0));
    }

    #[test]
    fn reads_stop_until_the_client_has_taken_the_latest_part() {
        let cx = Context::from_waker(Waker::noop());
        let connection = start(1).remove(0);
        assert!(!connection.is_held(&cx) && !connection.is_idle(&cx));
        connection.hold();
        assert!(connection.is_held(&cx) && connection.is_idle(&cx));
        connection.resume();
        assert!(!connection.is_held(&cx));
        connection.start(false);
        connection.hold();
        assert!(connection.is_held(&cx) && !connection.is_idle(&cx), "the request is still being sent");
        connection.finish();
        assert!(!connection.is_held(&cx));
    }

    #[test]
    fn a_connection_is_at_rest_between_two_responses() {
        let connection = ReadAhead::default();
        assert!(!connection.is_at_rest(), "hyper has not been polled yet");
        connection.start(true);
        assert!(!connection.is_at_rest());
        connection.finish();
        assert!(connection.is_at_rest());
        connection.start(false);
        connection.finish();
        assert!(!connection.is_at_rest(), "the request may still be sent");
        connection.start(true);
        connection.finish();
        connection.close();
        assert!(!connection.is_at_rest(), "hyper has to close it");
    }
}
