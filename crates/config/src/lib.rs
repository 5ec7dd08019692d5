//! Configuration: YAML text to a checked [`Config`], with the line and column of every error.
//!
//! The steps, one module each:
//!
//! 1. `source` reads the files and those of their profiles; `yaml` parses them into nodes with spans.
//! 2. `source` expands dotted keys and joins the documents; `spring` normalizes an `application.yml` to our own form.
//! 3. `source` applies the environment: overrides and `${NAME}` placeholders.
//! 4. `de` deserializes the nodes into the raw structs of `raw` and of each section.
//! 5. `check` turns them into a [`Config`], section by section.
//!
//! Each step collects its `diagnostics` and continues, so that one run reports every error.

mod argument_names;
mod check;
mod concurrency_limiter;
mod de;
mod diagnostics;
mod filters;
#[cfg(test)]
mod generated;
mod java_properties;
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
mod source;
mod spec;
mod spring;
#[cfg(test)]
mod steps;
#[cfg(test)]
mod tests;
mod yaml;

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
