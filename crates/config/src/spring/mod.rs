//! Spring's forms of a configuration: `application.yml` normalized to our own form, shortcuts, switches, and the
//! properties that are known but not used.

pub(crate) mod comma_lists;
pub(crate) mod form;
mod hystrix;
pub(crate) mod likely_registry;
pub(crate) mod limiter_bean;
pub(crate) mod misspelled;
pub(crate) mod names;
pub(crate) mod normalize;
pub(crate) mod properties;
pub(crate) mod proposals;
mod protection;
mod ribbon;
mod service_discovery;
pub(crate) mod stand_ins;
pub(crate) mod switches;
pub(crate) mod translate;
mod tree;
mod used;
