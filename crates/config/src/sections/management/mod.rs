//! `management:`: the listener for health, metrics and the API, and `metrics:`.

pub(crate) mod check;
pub(crate) mod endpoints;
pub(crate) mod keys;
pub(crate) mod model;
pub(crate) mod origin;
pub(crate) mod socket;
pub(crate) mod tokens;
pub(crate) mod tracing;
