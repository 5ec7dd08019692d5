//! Telemetry that does not know the path of a request: the gateway's log, the threads that write logs, the export of spans,
//! counts of the most frequent keys, and helpers for metrics.
//!
//! `tollgate-proxy` records requests with it.

mod b3;
pub mod encode;
pub mod key_display;
pub mod log_writer;
pub mod logs;
pub mod otlp;
pub mod series;
pub mod top_keys;
pub mod trace_context;
