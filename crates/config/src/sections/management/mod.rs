//! `management:`: the listener for health, metrics and the API, and `metrics:`.

pub(crate) mod check;
pub(crate) mod endpoints;
pub(crate) mod keys;
pub(crate) mod model;
pub(crate) mod server;
pub(crate) mod tokens;
pub(crate) mod tracing;
