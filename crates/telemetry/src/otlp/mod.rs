//! Export of spans over OTLP: finished spans ([`span`]), a bounded queue, and a thread that sends batches to a collector
//! ([`exporter`]).

pub mod exporter;
mod protobuf;
pub mod span;
