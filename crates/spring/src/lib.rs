//! Configurations as Spring writes them: `application.yml` to the tree of our own form.
//!
//! [`read::Tree`] has the steps:
//!
//! 1. [`source`] reads files as Spring Boot does: profiles, imports, documents, dotted keys; the environment and placeholders.
//! 2. `detect` tells an `application.yml` from our own form.
//! 3. `normalize` moves its sections to where our own form has them; `comma_lists` and `stand_ins` rewrite lists.
//! 4. [`translate`] writes what Spring means where a file is silent.
//!
//! Every node keeps the span of its source, so that later diagnostics point into the file. [`properties`] and [`misspelled`]
//! report what is not used.

pub mod comma_lists;
mod detect;
pub mod limiter_bean;
pub mod misspelled;
pub mod names;
pub mod normalize;
mod older_versions;
pub mod properties;
pub mod proposals;
pub mod read;
pub mod service_discovery;
mod servlet;
pub mod source;
pub mod stand_ins;
pub mod translate;
mod tree;

/// Form of a configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Our sections at the top level.
    Own,
    /// Spring's `application.yml`.
    Spring,
}
