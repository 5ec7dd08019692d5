//! The limiter of `tollgate-filters`, built once more with the locks and atomics of [shuttle] in its store in memory, so
//! that `tests/memory.rs` can try out the orders in which threads may come. The normal build knows nothing of it.
//!
//! [shuttle]: https://docs.rs/shuttle

// The unit tests of the sources run where those belong.
#![cfg(not(test))]

#[path = "../../src/limiter/mod.rs"]
pub mod limiter;
mod sync;
