//! Documents of a configuration: the trees of YAML and properties files, and what is reported about them.
//!
//! [`yaml`] and [`java_properties`] parse texts into nodes with spans. [`diagnostics`] collects errors, warnings and notes by span,
//! and renders them with lines and excerpts, without secrets.

pub mod characters;
pub mod diagnostics;
pub mod java_properties;
#[cfg(debug_assertions)]
pub mod steps;
pub mod yaml;
