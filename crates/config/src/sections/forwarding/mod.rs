//! Forwarding headers: `trusted-proxies`, `x-forwarded`, `forwarded`, `headers` and `via`.

pub(crate) mod check;
pub(crate) mod model;
pub(crate) mod raw;
pub(crate) mod trusted_proxies;
