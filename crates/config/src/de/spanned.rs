//! Raw values with their spans.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, Error, SeqAccess, Visitor};

use crate::de::{NODE_REF, SPANNED};
use crate::yaml::Span;

/// A value and its span. Deserializes from the same YAML as the value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spanned<T> {
    pub(crate) value: T,
    pub(crate) span: Span,
}

/// Returns a node's place and argument as one number, for the data model of serde.
pub(super) fn pack(span: Span) -> u64 {
    u64::from(span.place) | u64::from(span.argument) << 32
}

/// Undoes [`pack`].
fn unpack(packed: u64) -> Span {
    let [p0, p1, p2, p3, argument, ..] = packed.to_le_bytes();
    Span { argument, ..Span::new(u32::from_le_bytes([p0, p1, p2, p3])) }
}

/// Visitor of a place and the value at it; `None` for null. The value is absent if it is of the wrong type.
pub(super) struct PlacedVisitor<T>(pub(super) PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for PlacedVisitor<T> {
    type Value = Option<(Span, Option<T>)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value of a configuration")
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let place = seq.next_element()?.ok_or_else(|| A::Error::custom("no place"))?;
        Ok(Some((unpack(place), seq.next_element()?)))
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Spanned<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match deserializer.deserialize_newtype_struct(SPANNED, PlacedVisitor(PhantomData))? {
            Some((span, Some(value))) => Ok(Self { value, span }),
            _ => Err(D::Error::custom("no value")),
        }
    }
}

/// Implements `JsonSchema` for a wrapper: the schema of its value.
macro_rules! schema_of_value {
    ($wrapper:ident) => {
        #[cfg(test)]
        impl<T: schemars::JsonSchema> schemars::JsonSchema for $wrapper<T> {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> std::borrow::Cow<'static, str> {
                T::schema_name()
            }

            fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
                generator.subschema_for::<T>()
            }
        }
    };
}

pub(super) use schema_of_value;

schema_of_value!(Spanned);

/// Reference to a node, for fields that are read by hand.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NodeRef(pub(crate) Span);

impl<'de> Deserialize<'de> for NodeRef {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Place;

        impl Visitor<'_> for Place {
            type Value = NodeRef;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a place in a configuration")
            }

            fn visit_u32<E>(self, place: u32) -> Result<NodeRef, E> {
                Ok(NodeRef(Span::new(place)))
            }
        }

        deserializer.deserialize_newtype_struct(NODE_REF, Place)
    }
}

#[cfg(test)]
impl schemars::JsonSchema for NodeRef {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Anything".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!(true)
    }
}
