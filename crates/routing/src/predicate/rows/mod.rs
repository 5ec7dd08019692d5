//! Predicates with their rows. A new predicate is a file here, its module, and an entry in [`PREDICATES`].

pub(crate) mod addresses;
mod cloud_foundry;
mod cookie;
mod datetime;
mod header;
mod query;
pub(crate) mod version;

use crate::predicate::row::PredicateRow;

/// Rows of all predicates except `Path`, `Method`, `Host` and `Weight`, whose arguments the configuration reads itself.
pub const PREDICATES: &[PredicateRow] = &[
    addresses::REMOTE_ADDR,
    addresses::X_FORWARDED_REMOTE_ADDR,
    version::VERSION,
    header::HEADER,
    query::QUERY,
    cookie::COOKIE,
    datetime::AFTER,
    datetime::BEFORE,
    datetime::BETWEEN,
    cloud_foundry::CLOUD_FOUNDRY_ROUTE_SERVICE,
];
