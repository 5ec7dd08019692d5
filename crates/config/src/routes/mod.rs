//! Routes: their predicates, filters and targets, and settings that need all routes at once.

pub(crate) mod check;
pub(crate) mod cors;
pub(crate) mod forward;
pub(crate) mod list;
pub(crate) mod metadata;
pub(crate) mod model;
pub(crate) mod raw;
mod removed_keys;
pub(crate) mod response_cache;
pub(crate) mod route;
pub(crate) mod target;
