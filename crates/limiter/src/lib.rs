//! Deciding whether a request may pass: [rules](rule), [verdicts](verdict), [algorithms](algorithm) and the
//! [stores](store) that keep their state; and how many may be under way [at once](concurrency). No HTTP in here.

pub mod algorithm;
pub mod concurrency;
pub mod key;
pub mod metering;
pub mod plan;
pub mod quota;
pub mod rule;
pub mod store;
mod sync;
pub mod verdict;
