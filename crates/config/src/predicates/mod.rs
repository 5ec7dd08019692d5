//! Predicates. [`entries`] has the table, [`condition`] joins several by `any`, `all` and `not`.

mod checks;
pub(crate) mod condition;
pub(crate) mod context;
mod entries;
pub(crate) mod entry;
mod patterns;
pub(crate) mod raw;
mod rows;
#[cfg(test)]
pub(crate) mod schema;
pub(crate) mod table;
#[cfg(test)]
mod tests;
pub(crate) mod weights;

pub use self::entry::Entry;
pub(crate) use self::table::names;
pub use self::table::predicates;
