//! Configuration: YAML text to a checked [`Config`], with the line and column of every error.
//!
//! The steps:
//!
//! 1. `tollgate_spring` reads the files and those of their profiles, joins their documents, applies the environment, and
//!    translates an `application.yml` to our own form. The trees are those of `tollgate_document`, with spans.
//! 2. `de` deserializes the nodes into the raw structs of `raw` and of each section.
//! 3. `check` turns them into a [`Config`], section by section.
//!
//! Each step collects its `diagnostics` and continues, so that one run reports every error.

mod argument_names;
mod check;
mod concurrency_limiter;
mod de;
mod filters;
#[cfg(test)]
mod generated;
mod key_resolvers;
mod load;
mod locator;
mod migrate;
mod model;
mod predicates;
mod rate_limiter;
mod raw;
mod request_counter;
mod restart;
mod routes;
mod schema;
mod sections;
mod spec;
mod switches;
#[cfg(test)]
mod tests;

#[cfg(test)]
use tollgate_document::steps;
use tollgate_document::{diagnostics, yaml};
use tollgate_spring::{self as spring, source};

pub use crate::diagnostics::{Diagnostic, Report, Severity, UnknownKind, UnknownName};
pub use crate::filters::{Argument, ArgumentSchema, ArgumentType, Arguments, Entry as FilterEntry, filters};
pub use crate::load::{Loaded, load, load_with_services, parse};
pub use crate::locator::{Locator, MAX_LOCATED_SERVICES, Metadata, Services};
pub use crate::migrate::{Migrated, migrate, migrate_files};
pub use crate::model::*;
pub use crate::predicates::{Entry as PredicateEntry, ShortcutType, predicates};
pub use crate::restart::needs_restart;
pub use crate::schema::SCHEMA;
#[cfg(feature = "jwt")]
pub use crate::sections::jwt::model::{Jwt, KeySource};
pub use crate::source::command_line::CommandLine;
pub use crate::source::files::LoadError;
