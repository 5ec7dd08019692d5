//! Tests of the reading of YAML: against `serde_yaml`, and of spans.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod oracle;
mod spans;
mod texts;
