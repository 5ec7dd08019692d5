//! Routing: Spring Cloud Gateway's predicates, and the table that finds the first matching route.
//!
//! This crate does no I/O. [`normalize`] puts a request path into the one normalized form that routing, limiting and
//! filters see. A [`Predicate`] is one condition on a request. [`RouteTable`] finds the first route that
//! matches; an index over path prefixes and host suffixes keeps the number of tested routes small.

mod decision;
mod error;
mod host;
mod host_syntax;
mod normalize;
mod path;
mod predicate;
mod request;
mod segment;
mod table;

pub use self::decision::{Decision, Undecided};
pub use self::error::{PatternError, PredicateError};
pub use self::host::HostPattern;
pub use self::host_syntax::{HostForm, host_form, normalize_host};
pub use self::normalize::{PathError, PathRules, Separator, check_made, keeps_spelling, normalize, normalize_by};
pub use self::path::PathPattern;
pub use self::predicate::host::HostPort;
pub use self::predicate::row::{PredicateArgument, PredicateForm, PredicateRow, PredicateSettings, Remark, ValueKind};
pub use self::predicate::rows::PREDICATES;
pub use self::predicate::rows::addresses::network;
pub use self::predicate::rows::version::{ApiVersions, Version, VersionSource};
pub use self::predicate::{AllOf, Predicate};
pub use self::request::{RequestPart, RequestView, Variables};
pub use self::table::{Evaluation, Mismatch, RouteEntry, RouteTable, covering_routes};
