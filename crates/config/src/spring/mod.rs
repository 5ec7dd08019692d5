//! TODO-DOC

pub(crate) mod names;
pub(crate) mod normalize;
pub(crate) mod properties;
pub(crate) mod switches;
