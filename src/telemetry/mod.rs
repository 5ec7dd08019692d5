//! What an operator sees: logs, the access log, metrics.

pub mod access_log;
pub mod caches;
pub mod concurrency;
pub mod log_writer;
pub mod logs;
pub mod metrics;
pub mod record;
pub mod resilience;
pub mod upstreams;
pub mod verdicts;
