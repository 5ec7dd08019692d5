//! Predicates and filters as the file specifies them: `Name=a,b`, or a name and named arguments.
//!
//! [`parse`] reads the text or map into a [`Spec`]; [`tree`] turns its arguments into nodes for the positioned
//! deserializer; [`single_values`] reads single arguments.

pub(crate) mod argument_types;
pub(crate) mod definition;
pub(crate) mod keys;
mod masked;
pub(crate) mod parse;
pub(crate) mod rejection;
#[cfg(test)]
pub(crate) mod schema;
pub(crate) mod single_values;
pub(crate) mod tree;

pub use self::masked::Audience;
use crate::spec::definition::Spec;

/// A filter as the file specifies it.
pub(crate) type FilterSpec<'n> = Spec<'n>;
/// A predicate as the file specifies it.
pub(crate) type PredicateSpec<'n> = Spec<'n>;
