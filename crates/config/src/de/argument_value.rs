//! Arguments of limiters: a value of the wrong type is reported, and the check of the others goes on.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};

use crate::de::GIVEN;
use crate::de::spanned::{PlacedVisitor, Spanned, schema_of_value};
use crate::diagnostics::Reported;
use crate::yaml::Span;

/// One argument of a filter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Given<T> {
    /// Not in the file, or null.
    #[default]
    Absent,
    /// Of the wrong type, which is reported.
    Wrong(Span),
    /// A value and its place.
    Value(Spanned<T>),
}

impl<T> Given<T> {
    /// Returns the value with its place.
    pub(crate) fn spanned(&self) -> Option<&Spanned<T>> {
        match self {
            Self::Value(spanned) => Some(spanned),
            Self::Absent | Self::Wrong(_) => None,
        }
    }

    /// Returns the value.
    pub(crate) fn value(&self) -> Option<&T> {
        self.spanned().map(|spanned| &spanned.value)
    }

    /// Returns the value with its place, or `None` if absent.
    ///
    /// # Errors
    /// The value is of the wrong type.
    pub(crate) fn checked(&self) -> Result<Option<&Spanned<T>>, Reported> {
        match self {
            Self::Absent => Ok(None),
            Self::Wrong(_) => Err(Reported::promised()),
            Self::Value(spanned) => Ok(Some(spanned)),
        }
    }

    /// Returns true if the file has the argument, with a usable value or not.
    pub(crate) fn is_given(&self) -> bool {
        !matches!(self, Self::Absent)
    }

    /// Returns the place of the value, usable or not.
    pub(crate) fn span(&self) -> Option<Span> {
        match self {
            Self::Absent => None,
            Self::Wrong(span) => Some(*span),
            Self::Value(spanned) => Some(spanned.span),
        }
    }
}

impl<T: Clone> Given<T> {
    /// Returns the value, or `default` if absent.
    ///
    /// # Errors
    /// The value is of the wrong type.
    pub(crate) fn or(&self, default: T) -> Result<T, Reported> {
        self.optional().map(|value| value.unwrap_or(default))
    }

    /// Returns the value, or `None` if absent.
    ///
    /// # Errors
    /// The value is of the wrong type.
    pub(crate) fn optional(&self) -> Result<Option<T>, Reported> {
        self.checked().map(|spanned| spanned.map(|spanned| spanned.value.clone()))
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Given<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(match deserializer.deserialize_newtype_struct(GIVEN, PlacedVisitor(PhantomData))? {
            None => Self::Absent,
            Some((span, None)) => Self::Wrong(span),
            Some((span, Some(value))) => Self::Value(Spanned { value, span }),
        })
    }
}

schema_of_value!(Given);

/// A map whose keys are names of the author's, in the order of the file.
#[derive(Clone, Debug, Default)]
pub(crate) struct NamedEntries<T>(pub(crate) Vec<(String, T)>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for NamedEntries<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Entries<T> {
            type Value = NamedEntries<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("names with values")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<NamedEntries<T>, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(NamedEntries(entries))
            }
        }

        deserializer.deserialize_map(Entries(PhantomData))
    }
}

#[cfg(test)]
impl<T: schemars::JsonSchema> schemars::JsonSchema for NamedEntries<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        format!("Named{}", T::schema_name()).into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let value = generator.subschema_for::<T>();
        schemars::json_schema!({"type": "object", "additionalProperties": value})
    }
}

/// One text, or a list of texts. A single text is not split at commas.
#[derive(Clone, Debug, serde::Deserialize)]
#[serde(rename = "$tollgate::Shape", rename_all = "lowercase")]
pub(crate) enum Texts {
    /// One.
    Scalar(Spanned<String>),
    /// Several.
    Seq(Vec<Spanned<String>>),
}

impl Default for Texts {
    fn default() -> Self {
        Self::Seq(Vec::new())
    }
}

impl Texts {
    /// Returns each text with its place.
    pub(crate) fn items(&self) -> &[Spanned<String>] {
        match self {
            Self::Scalar(text) => std::slice::from_ref(text),
            Self::Seq(items) => items,
        }
    }
}

#[cfg(test)]
impl schemars::JsonSchema for Texts {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "TextOrList".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let text = schemars::json_schema!({"type": ["string", "integer", "number", "boolean"]});
        schemars::json_schema!({"anyOf": [text, {"type": "array", "items": text}]})
    }
}
