//! Which route takes a request: Spring Cloud Gateway's predicates, in order, first match first served.
//!
//! All of this is pure. [`normalize`] puts the request's path into the one form that everything else sees;
//! [`Predicate`] is one condition; [`RouteTable`] finds the first route whose conditions all hold, looking only at
//! those whose paths start, and whose hosts end, as the request's do.

mod host;
mod normal;
mod path;
mod pattern_error;
mod predicate;
mod request;
mod segment;
mod table;

pub use self::host::HostPattern;
pub use self::normal::{PathProblem, normalize};
pub use self::path::PathPattern;
pub use self::pattern_error::PatternError;
pub use self::predicate::{AllOf, ApiVersions, Predicate, PredicateError, Version, VersionSource};
pub use self::request::{RequestView, Variables};
pub use self::table::{Found, Refusal, RouteTable, Tried};
