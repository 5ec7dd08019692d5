//! Sizes of the reads from HTTP/1.1 upstreams.
//!
//! A large read saves system calls, but a client that stops reading holds what was read. So the next part of a response
//! is read when the client has taken the one before. Reads are small at first. They grow while they are filled, up to an
//! equal share of a budget for the connections of a worker that read large responses: no tunnels or event streams. The
//! connections of a worker live on one thread, and so do their sums.

use std::cell::Cell;

use bytes::BytesMut;

use crate::http::sockets::part;

/// Bytes that the buffers of a worker's connections may have, beyond the smallest ones: half the largest buffer for each of
/// 16 connections. The allocator may keep as much again, of buffers that were replaced by larger ones.
const BUDGET: usize = 16 * (MAX / 2 - MIN);
/// Smallest buffer.
const MIN: usize = 8 * 1024;
/// Largest buffer.
const MAX: usize = 256 * 1024;

thread_local! {
    /// Sum of the buffers, beyond the smallest ones.
    static SPENT: Cell<usize> = const { Cell::new(0) };
    /// Number of connections that are reading a large response.
    static READING: Cell<usize> = const { Cell::new(0) };
}

/// Sizes of the reads of one connection.
#[derive(Debug, Default)]
pub(super) struct ReadSizes {
    /// Size of the buffer beyond [`MIN`], counted until the connection is closed.
    grown: usize,
    /// True from the first full read of a response to its end.
    is_large: bool,
}

impl ReadSizes {
    /// Begins the response to a request.
    pub(super) fn start(&mut self) {
        let size = self.size();
        if size > share() && SPENT.get() > BUDGET / 8 * 7 {
            self.resize(size / 2);
        }
    }

    /// Ends the response.
    pub(super) fn finish(&mut self) {
        if std::mem::take(&mut self.is_large) {
            READING.set(READING.get().saturating_sub(1));
        }
    }

    /// Makes room in `buffer` for the next read, and returns the largest number of bytes to read: a [`part`] of the buffer.
    pub(super) fn prepare(&self, buffer: &mut BytesMut) -> usize {
        let (size, limit) = (self.size(), self.limit());
        if !buffer.is_empty() {
            buffer.reserve(limit);
        } else if buffer.capacity() > 2 * size || (buffer.capacity() < limit && !buffer.try_reclaim(limit)) {
            // A larger one would have twice the size if it were extended.
            *buffer = BytesMut::with_capacity(size);
        }
        limit
    }

    /// Returns true if the memory of `buffer` is in use by the parts that were taken from it.
    pub(super) fn is_lent(&self, buffer: &mut BytesMut) -> bool {
        let limit = self.limit();
        buffer.is_empty() && buffer.capacity() < limit && !buffer.try_reclaim(limit)
    }

    /// Notes a read of `length` bytes. The next one may be larger if this one reached the limit. The smallest buffer grows
    /// at the second such read of a response only: of responses that begin together, all count when the first grows.
    pub(super) fn read(&mut self, length: usize) {
        let size = self.size();
        if length < part(size) {
            return;
        }
        let is_first = !std::mem::replace(&mut self.is_large, true);
        if is_first {
            READING.set(READING.get() + 1);
        }
        if size < MAX && !(is_first && size == MIN) && 2 * size <= share() && SPENT.get() + size <= BUDGET {
            self.resize(2 * size);
        }
    }

    fn limit(&self) -> usize {
        part(self.size())
    }

    fn size(&self) -> usize {
        MIN + self.grown
    }

    fn resize(&mut self, size: usize) {
        let grown = size.saturating_sub(MIN);
        let before = std::mem::replace(&mut self.grown, grown);
        SPENT.set((SPENT.get() + grown).saturating_sub(before));
    }
}

impl Drop for ReadSizes {
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
    fn fill(connection: &mut ReadSizes) -> usize {
        for _ in 0..10 {
            connection.read(connection.limit());
        }
        connection.size()
    }

    fn start(count: usize) -> Vec<ReadSizes> {
        let mut connections: Vec<ReadSizes> = (0..count).map(|_| ReadSizes::default()).collect();
        connections.iter_mut().for_each(ReadSizes::start);
        connections
    }

    #[test]
    fn reads_grow_to_equal_shares_while_they_are_filled() {
        for (count, size) in [(1, MAX), (7, MAX), (16, MAX / 2), (80, MAX / 8), (1000, MIN)] {
            let mut connections = start(count);
            assert_eq!(connections[0].limit(), part(MIN));
            connections[0].read(MIN / 2);
            assert_eq!(connections[0].limit(), part(MIN), "a small response");
            connections.iter_mut().for_each(|connection| connection.read(part(MIN)));
            assert!(connections.iter_mut().all(|connection| fill(connection) == size), "{connections:?}");
            assert!(SPENT.get() <= BUDGET, "{}", SPENT.get());
            drop(connections);
            assert_eq!((SPENT.get(), READING.get()), (0, 0));
        }
    }

    #[test]
    fn connections_without_a_large_response_take_no_share() {
        let mut connections = start(1000);
        assert_eq!(fill(&mut connections[0]), MAX);
    }

    #[test]
    fn early_connections_never_make_the_sum_exceed_the_budget_and_give_back_at_their_next_response() {
        let mut connections = Vec::new();
        for _ in 0..1000 {
            let mut connection = start(1).remove(0);
            fill(&mut connection);
            connections.push(connection);
        }
        assert_eq!((connections[0].limit(), connections[999].limit()), (part(MAX), part(MIN)));
        assert!((BUDGET / 2..=BUDGET).contains(&SPENT.get()), "{}", SPENT.get());
        for size in [MAX / 2, MAX / 4, MAX / 8, MAX / 16, MAX / 16] {
            fill(&mut connections[999]);
            connections[0].finish();
            connections[0].start();
            assert_eq!(connections[0].limit(), part(size));
        }
        drop(connections);
        assert_eq!((SPENT.get(), READING.get()), (0, 0));
    }

    #[test]
    fn a_buffer_has_the_size_of_the_reads_and_is_used_again() {
        let mut sizes = ReadSizes::default();
        let mut buffer = BytesMut::new();
        for size in [MIN, 2 * MIN, 4 * MIN, MAX] {
            sizes.resize(size);
            for _ in 0..3 {
                assert_eq!(sizes.prepare(&mut buffer), part(size));
                assert_eq!(buffer.capacity(), size);
                buffer.resize(part(size), 0);
                let taken = buffer.split().freeze();
                assert!(sizes.is_lent(&mut buffer));
                drop(taken);
                assert!(!sizes.is_lent(&mut buffer));
            }
        }
        sizes.resize(MIN);
        sizes.prepare(&mut buffer);
        assert_eq!(buffer.capacity(), MIN);
    }
}
