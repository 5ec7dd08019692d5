//! Predicates with their rows. A new predicate is a file here, its module, and an entry in [`PREDICATES`].

mod cloud_foundry;
mod cookie;
mod datetime;
mod header;
mod query;
mod remote_addr;
pub(crate) mod version;
mod x_forwarded_remote_addr;

use crate::predicate::row::PredicateRow;

/// Rows of all predicates except `Path`, `Method`, `Host` and `Weight`, whose arguments the configuration reads itself.
pub const PREDICATES: &[PredicateRow] = &[
    remote_addr::REMOTE_ADDR,
    x_forwarded_remote_addr::X_FORWARDED_REMOTE_ADDR,
    version::VERSION,
    header::HEADER,
    query::QUERY,
    cookie::COOKIE,
    datetime::AFTER,
    datetime::BEFORE,
    datetime::BETWEEN,
    cloud_foundry::CLOUD_FOUNDRY_ROUTE_SERVICE,
];
