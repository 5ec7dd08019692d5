//! TODO-DOC

pub(crate) mod check;
pub(crate) mod metrics;
pub(crate) mod model;
pub(crate) mod raw;
