//! Raw values with their spans.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;

use serde::de::{Deserialize, Deserializer, Error, SeqAccess, Visitor};

use crate::de::SPANNED;
use crate::yaml::Span;

/// A value and its span: that of the root for a default. Deserializes from the same YAML as the value. Equal values are equal
/// wherever they stand.
#[derive(Clone, Copy, Default)]
pub struct Spanned<T> {
    pub(crate) value: T,
    pub(crate) span: Span,
}

impl<T> Spanned<T> {
    /// Returns true if the file has the value; false for a default.
    pub(crate) fn is_given(&self) -> bool {
        self.span != Span::ROOT
    }
}

impl<T> Deref for Spanned<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T: PartialEq> PartialEq for Spanned<T> {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}

impl<T: Eq> Eq for Spanned<T> {}

impl<T: fmt::Debug> fmt::Debug for Spanned<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.value.fmt(f)
    }
}

/// Reads a span, which comes as several numbers.
fn next_span<'de, A: SeqAccess<'de>>(seq: &mut A) -> Result<Span, A::Error> {
    let mut next = || seq.next_element()?.ok_or_else(|| A::Error::custom("no span"));
    Ok(Span::unpack([next()?, next()?, next()?]))
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
        let span = next_span(&mut seq)?;
        Ok(Some((span, seq.next_element()?)))
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

        impl<'de> Visitor<'de> for Place {
            type Value = NodeRef;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a place in a configuration")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<NodeRef, A::Error> {
                next_span(&mut seq).map(NodeRef)
            }
        }

        deserializer.deserialize_newtype_struct(SPANNED, Place)
    }
}

/// Implements `JsonSchema` for a type that any value can have.
macro_rules! schema_of_anything {
    ($type:ident) => {
        #[cfg(test)]
        impl schemars::JsonSchema for $type {
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
    };
}

pub(super) use schema_of_anything;

schema_of_anything!(NodeRef);

/// An optional text, without the space around it. A blank one counts as absent: `${UPSTREAM_CA:}` in an environment without
/// it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OptionalText(Spanned<String>);

impl OptionalText {
    /// Returns the text, unless it is absent.
    pub fn get(&self) -> Option<&str> {
        Some(self.as_str()).filter(|text| !text.is_empty())
    }

    /// Returns the text; an empty one if it is absent.
    pub fn as_str(&self) -> &str {
        &self.0.value
    }

    /// Gives an absent text its `default`.
    pub(crate) fn fill(&mut self, default: &str) {
        if self.get().is_none() {
            default.clone_into(&mut self.0.value);
        }
    }

    /// Returns the text with its place, unless it is absent.
    pub(crate) fn spanned(&self) -> Option<&Spanned<String>> {
        Some(&self.0).filter(|text| !text.value.is_empty())
    }

    /// Returns true if the file has the key, with a blank text or another one.
    pub(crate) fn is_given(&self) -> bool {
        self.0.is_given()
    }

    /// Returns the place of the text; `section` if it is absent.
    pub(crate) fn span_or(&self, section: Span) -> Span {
        self.spanned().map_or(section, |text| text.span)
    }
}

impl<'de> Deserialize<'de> for OptionalText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Option::<Spanned<String>>::deserialize(deserializer).map(|text| text.map(Self::from).unwrap_or_default())
    }
}

impl From<Spanned<String>> for OptionalText {
    fn from(Spanned { value, span }: Spanned<String>) -> Self {
        Self(Spanned { value: value.trim().to_owned(), span })
    }
}

#[cfg(test)]
impl schemars::JsonSchema for OptionalText {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        <Option<String>>::schema_name()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        generator.subschema_for::<Option<String>>()
    }
}
