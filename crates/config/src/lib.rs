//! Configuration: YAML text to a checked [`Config`], with the line and column of every error.
//!
//! The steps, in the order of `load::parse_once`:
//!
//! 1. `tollgate_spring` reads the files and those of their profiles (`source::imports`), joins their documents, puts the values
//!    of the environment into placeholders, and translates an `application.yml` to our own form. The tree is that of
//!    `tollgate_document`, with spans. Before the translation, `locator` adds the routes of services; after it, `switches`
//!    takes the filters and predicates that the file switches off.
//! 2. `de` deserializes the sections into the structs of `raw_config`. A value that names its own type stays a `NodeRef`: the
//!    number of its node.
//! 3. `check` turns the sections into a [`Config`], one after another. Routes are read here, from their nodes.
//!
//! The way of two lines:
//!
//! - `httpclient.connect-timeout: 5s`: `raw_config` has the section, `sections::http_client` its keys, its check and its result.
//! - `replenish-rate: 10` of a route's limiter: `check::routes` passes the tree on, `routes::check` goes through the list, and
//!   `routes::route` reads one route with its filters. `spec::parse` splits a filter into its name and its arguments, which stay
//!   a node of the tree. `filters` finds the row of the name. That of the limiter calls `rate_limiter::check`, which
//!   deserializes the arguments into `rate_limiter::args`. `rate_limiter::rules` decides between a rule and a list, and
//!   `rate_limiter::rule` makes the rule.
//!
//! Each step collects its `diagnostics` and continues, so that one run reports every error.
//!
//! `#[section]`, `#[word]` and `#[arguments]` are attributes of `tollgate_attributes`, which all types of keys have.

#[macro_use(arguments, section, word)]
extern crate tollgate_attributes;

mod check;
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
mod raw_config;
mod restart;
mod routes;
mod schema;
mod sections;
mod spec;
mod switches;
#[cfg(test)]
mod tests;

pub use tollgate_document::characters::is_unsafe;
#[cfg(test)]
use tollgate_document::steps;
use tollgate_document::{diagnostics, yaml};
use tollgate_spring::{self as spring, source};

pub use crate::check::unwritable::ACCESS_LOG_WARNING;
pub use crate::de::{
    Address, Flag, Number, OptionalText, Or, PositiveTime, Ranged, Scale, Seconds, Size, Spanned, Time, Timeout, Unit,
    Word,
};
pub use crate::diagnostics::{
    Diagnostic, Diagnostics, MAX_SHOWN, Report, SecretValues, Severity, UnknownKind, UnknownName,
};
pub use crate::filters::{Entry as FilterEntry, filters};
pub use crate::load::{FurtherCheck, Loaded, load, load_and_check, load_with_services, parse};
pub use crate::locator::{Locator, MAX_LOCATED_SERVICES, Metadata, Services};
pub use crate::migrate::{Migrated, migrate, migrate_files};
pub use crate::model::*;
pub use crate::predicates::{Entry as PredicateEntry, predicates};
pub use crate::restart::StartSettings;
pub use crate::schema::SCHEMA;
#[cfg(feature = "jwt")]
pub use crate::sections::jwt::check::{Jwt, KeySource};
pub use crate::source::command_line::CommandLine;
pub use crate::source::files::LoadError;
pub use crate::spec::{Audience, Status, redis_keys, time_with_unit, with_keys};
