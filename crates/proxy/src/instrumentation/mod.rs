//! Record of requests: the access log, the spans of sampled requests, and the metrics of requests, limiters and upstreams.
//!
//! Workers write series of their own ([`metrics`]); a scrape sums them, with one function for each group of metrics. [`record`] accompanies one request. What does not
//! know a request, such as the writer of logs, is in `tollgate-telemetry`.

pub mod access_log;
pub mod concurrency;
pub mod metrics;
pub mod record;
pub mod requests;
pub mod state_metrics;
pub mod totals;
pub mod traces;
pub mod upstreams;
pub mod verdicts;
