//! Routes: raw shape, target and check.

mod check;
pub(crate) mod raw;
pub(crate) mod response_cache;
mod target;

pub(crate) use check::{Sections, check};
