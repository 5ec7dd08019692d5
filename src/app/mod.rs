//! TODO-DOC

pub mod descriptors;
pub mod process;
pub mod worker;
