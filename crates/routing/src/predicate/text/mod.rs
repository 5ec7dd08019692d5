//! Predicates whose arguments are plain texts. A new one is a file, and its module and row below.

mod cloud_foundry;
mod cookie;
mod datetime;
mod header;
pub(super) mod query;

use crate::predicate::text_form::TextPredicate;

/// Predicates whose arguments are plain texts, with what configurations need to know of them.
pub const TEXT_PREDICATES: &[TextPredicate] = &[
    header::HEADER,
    query::QUERY,
    cookie::COOKIE,
    datetime::AFTER,
    datetime::BEFORE,
    datetime::BETWEEN,
    cloud_foundry::CLOUD_FOUNDRY_ROUTE_SERVICE,
];
