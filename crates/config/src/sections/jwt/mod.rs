//! TODO-DOC

#[cfg_attr(not(feature = "jwt"), path = "absent.rs")]
pub(crate) mod check;
pub(crate) mod raw;
