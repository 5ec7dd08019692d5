//! Routes: their predicates, filters and targets, and settings that need all routes at once.

#![deny(clippy::wildcard_enum_match_arm)]

pub(crate) mod check;
pub(crate) mod cors;
mod filters;
mod key_parts;
pub(crate) mod model;
pub(crate) mod raw_route;
pub(crate) mod route;
pub(crate) mod target;
