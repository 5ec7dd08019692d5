//! Telemetry: the gateway's log, the access log, and the metrics of requests, limiters and upstreams.
//!
//! Workers write series of their own ([`metrics`]); a scrape sums them. [`top_keys`] names the keys that limiters deny
//! most often. [`record`] accompanies one request.

pub mod access_log;
pub mod caches;
pub mod certificates;
pub mod concurrency;
pub mod connections;
pub mod encode;
pub mod key_display;
pub mod log_writer;
pub mod logs;
pub mod metrics;
pub mod record;
pub mod reloads;
pub mod requests;
pub mod resilience;
pub mod series;
pub mod top_keys;
pub mod totals;
pub mod traces;
pub mod upstream_times;
pub mod upstreams;
pub mod verdicts;
