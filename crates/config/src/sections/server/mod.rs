//! `server:`: the listener for traffic.

pub(crate) mod check;
pub(crate) mod model;
pub(crate) mod raw;
pub(crate) mod tls;
