//! TODO-DOC

pub mod body;
pub mod deadline;
