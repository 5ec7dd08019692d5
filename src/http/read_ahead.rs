//! Size of the reads from HTTP/1.1 upstreams.
//!
//! A large read saves system calls, but a client that stops reading holds what was read. So a connection reads little at
//! first, and more while its reads are filled and the connections of its worker together hold less than a budget. The
//! connections of a worker live on one thread, and so does their sum.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Bytes that the buffers of a worker's connections may have, beyond the smallest ones.
const BUDGET: usize = 2 * 1024 * 1024;
/// Part of the free budget that one more step may take.
const SHARE: usize = 8;
/// Buffers of a connection: one that waits for the client, one that is read.
const BUFFERS: usize = 2;
/// Smallest buffer, which hyper starts with.
const MIN: usize = 8 * 1024;
/// Largest buffer.
pub const MAX: usize = 256 * 1024;

thread_local! {
    static SPENT: Cell<usize> = const { Cell::new(0) };
}

/// Size of the reads of one connection. All clones share it.
#[derive(Clone, Debug)]
pub struct ReadSize(Arc<Buffer>);

/// Size of a connection's buffers, counted until it is dropped. It is atomic because hyper requires an upgradable socket
/// to be `Send`. A single thread uses it.
#[derive(Debug)]
struct Buffer(AtomicUsize);

impl Default for ReadSize {
    fn default() -> Self {
        Self(Arc::new(Buffer(AtomicUsize::new(MIN))))
    }
}

impl ReadSize {
    /// Returns the largest number of bytes to read now. It is one less than the buffer: hyper doubles a buffer that was
    /// filled.
    #[must_use]
    pub fn limit(&self) -> usize {
        self.0.0.load(Relaxed) - 1
    }

    /// Notes a read of `length` bytes. The next one may be larger if this one reached the limit.
    pub fn read(&self, length: usize) {
        let size = self.0.0.load(Relaxed);
        if length >= size - 1 && size < MAX && size <= free() / SHARE {
            self.0.resize(size * 2);
        }
    }

    /// Reads less if the budget is short. Called between two responses.
    pub fn reconsider(&self) {
        let size = self.0.0.load(Relaxed);
        if size > MIN && size > free() / SHARE {
            self.0.resize(size / 2);
        }
    }
}

impl Buffer {
    fn resize(&self, size: usize) {
        let before = self.0.swap(size, Relaxed);
        SPENT.set((SPENT.get() + BUFFERS * size).saturating_sub(BUFFERS * before));
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        self.resize(MIN);
    }
}

fn free() -> usize {
    BUDGET.saturating_sub(SPENT.get())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fills the reads of a connection until they grow no more, and returns their size.
    fn fill(connection: &ReadSize) -> usize {
        for _ in 0..10 {
            connection.read(connection.limit());
        }
        connection.limit() + 1
    }

    #[test]
    fn reads_grow_while_they_are_filled_and_the_budget_lasts() {
        let connections: Vec<ReadSize> = (0..500).map(|_| ReadSize::default()).collect();
        assert_eq!(connections[0].limit(), MIN - 1);
        connections[0].read(MIN / 2);
        assert_eq!(connections[0].limit(), MIN - 1, "a small response");
        let sizes: Vec<usize> = connections.iter().map(fill).collect();
        assert_eq!((sizes[0], sizes[499]), (MAX, MIN));
        assert!(sizes.is_sorted_by(|one, next| one >= next), "{sizes:?}");
        assert!((BUDGET / 2..=BUDGET).contains(&SPENT.get()), "{}", SPENT.get());
        // The first connection gives back, and all of them give back everything when they close.
        connections[0].reconsider();
        assert_eq!(connections[0].limit(), MAX / 2 - 1);
        drop(connections);
        assert_eq!(SPENT.get(), 0);
    }
}
