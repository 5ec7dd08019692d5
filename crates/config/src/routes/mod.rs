//! TODO-DOC

pub(crate) mod check;
pub(crate) mod definition;
pub(crate) mod forward;
pub(crate) mod raw;
pub(crate) mod target;
