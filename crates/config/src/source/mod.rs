//! TODO-DOC

pub(crate) mod dotted;
pub(crate) mod environment;
pub(crate) mod placeholder;
pub(crate) mod profiles;
pub(crate) mod text;
