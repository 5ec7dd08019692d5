//! Configuration: YAML text to a checked [`Config`], with the line and column of every error.
//!
//! The steps, in the order of `load::parse_once`:
//!
//! 1. `tollgate_spring` reads the files and those of their profiles (`source::imports`), joins their documents, puts the values
//!    of the environment into placeholders, and translates an `application.yml` to our own form. The tree is that of
//!    `tollgate_document`, with spans. Between these, `locator` adds the routes of services, and `switches` takes the filters
//!    and predicates that the file switches off.
//! 2. `de` deserializes the sections into the structs of `raw`. A value that names its own type, such as a filter, stays a
//!    `NodeRef`: the place of its node.
//! 3. `check` turns the sections into a [`Config`], one after another. It deserializes the nodes of `NodeRef`s.
//!
//! The way of two lines:
//!
//! - `httpclient.connect-timeout: 5s`: `raw` has the section, `sections::http_client` its keys, its check and its result.
//! - `replenish-rate: 10` of a route's limiter: `routes::route` reads the route, and `routes::list` its filters. `spec` splits a
//!   filter into its name and its arguments, and `filters` finds the row of the name. The row of a limiter calls
//!   `rate_limiter::check`. Its arguments are `rate_limiter::args`; `rate_limiter::rule` makes a rule of them.
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
pub use crate::filters::{Entry as FilterEntry, filters};
pub use crate::load::{Loaded, load, load_with_services, parse};
pub use crate::locator::{Locator, MAX_LOCATED_SERVICES, Metadata, Services};
pub use crate::migrate::{Migrated, migrate, migrate_files};
pub use crate::model::*;
pub use crate::predicates::{Entry as PredicateEntry, predicates};
pub use crate::restart::needs_restart;
pub use crate::schema::SCHEMA;
#[cfg(feature = "jwt")]
pub use crate::sections::jwt::model::{Jwt, KeySource};
pub use crate::source::command_line::CommandLine;
pub use crate::source::files::LoadError;
