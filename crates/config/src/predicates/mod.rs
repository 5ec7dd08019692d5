//! Predicates. [`table`] has them by name, [`condition`] joins several by `any`, `all` and `not`.

mod checks;
pub(crate) mod condition;
pub(crate) mod context;
pub(crate) mod for_all_routes;
mod row;
#[cfg(test)]
pub(crate) mod schema;
pub(crate) mod table;
#[cfg(test)]
mod tests;
pub(crate) mod weights;

pub use self::row::Entry;
pub(crate) use self::table::names;
pub use self::table::predicates;
