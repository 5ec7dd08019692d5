//! Predicates and filters as the file specifies them: `Name=a,b`, or a name and named arguments.
//!
//! [`parse`] reads the text or map into a [`Spec`]; [`tree`] turns its arguments into nodes for the positioned
//! deserializer; [`single_values`] reads single arguments.

mod argument_types;
mod definition;
mod keys;
mod masked;
mod parse;
mod rejection;
#[cfg(test)]
mod schema;
mod single_values;
mod tree;

pub(crate) use self::argument_types::{
    BufferSize, Count, FieldName, Fraction, HeaderText, Instant, MAX_COUNT, MethodName, Number, Percent, Rate,
    Segments, Text, TimeArgument, time_argument,
};
pub use self::argument_types::{Status, time_with_unit};
pub(crate) use self::definition::{Arg, flatten};
pub(crate) use self::keys::key_of;
pub use self::keys::{redis_keys, with_keys};
pub use self::masked::Audience;
pub(crate) use self::parse::{NamedForm, Syntax};
pub(crate) use self::rejection::Rejection;
#[cfg(test)]
pub(crate) use self::schema::{
    DocumentedEntry, argument_map, arguments, definition, with_dotted_names, with_prefixed_names,
};
pub(crate) use self::single_values::{above_zero, flag, header_name, refusal};
pub(crate) use self::tree::Shortcut;
use crate::spec::definition::Spec;

/// A filter as the file specifies it.
pub(crate) type FilterSpec<'n> = Spec<'n>;
/// A predicate as the file specifies it.
pub(crate) type PredicateSpec<'n> = Spec<'n>;
