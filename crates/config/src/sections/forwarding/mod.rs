//! TODO-DOC

pub(crate) mod check;
pub(crate) mod model;
pub(crate) mod raw;
pub(crate) mod trusted_proxies;
