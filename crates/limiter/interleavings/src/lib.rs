//! The limiter of `tollgate-limiter`, built once more with the locks and atomics of [shuttle] in its store in memory, so
//! that `tests/memory.rs` can try out the orders in which threads may come. The normal build knows nothing of it.
//!
//! [shuttle]: https://docs.rs/shuttle

// The unit tests of the sources run where those belong.
#![cfg(not(test))]

#[path = "../../src/algorithm/mod.rs"]
pub mod algorithm;
#[path = "../../src/key/mod.rs"]
pub mod key;
#[path = "../../src/quota.rs"]
pub mod quota;
#[path = "../../src/rule/mod.rs"]
pub mod rule;
#[path = "../../src/store/mod.rs"]
pub mod store;
mod sync;
#[path = "../../src/verdict.rs"]
pub mod verdict;
