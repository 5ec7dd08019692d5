//! The sources of `tollgate-limiter`, built with the locks and atomics of [shuttle] in the memory store, so that
//! `tests/memory.rs` can test thread interleavings. The normal build is not affected.
//!
//! [shuttle]: https://docs.rs/shuttle

// The unit tests of the sources run in their own crate.
#![cfg(not(test))]

#[path = "../../src/algorithm/mod.rs"]
pub mod algorithm;
#[path = "../../src/key/mod.rs"]
pub mod key;
#[path = "../../src/label.rs"]
mod label;
#[path = "../../src/quota.rs"]
pub mod quota;
#[path = "../../src/rule/mod.rs"]
pub mod rule;
#[path = "../../src/store/mod.rs"]
pub mod store;
mod sync;
#[path = "../../src/verdict.rs"]
pub mod verdict;
