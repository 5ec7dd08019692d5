//! Arguments that are read one by one: a value of the wrong type is reported and does not hide the others.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};

use crate::de::GIVEN;
use crate::de::spanned::{PlacedVisitor, Spanned, schema_of_value};
use crate::yaml::Span;

/// One argument of a filter.
#[derive(Clone, Debug, Default)]
pub(crate) enum Given<T> {
    /// Not in the file, or null.
    #[default]
    Absent,
    /// Of the wrong type, which is reported.
    Wrong(Span),
    /// A value and its place.
    Value(Spanned<T>),
}

/// An argument is unusable, and the reason is reported.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reported;

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
            Self::Wrong(_) => Err(Reported),
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
    /// Returns the value, or `default` if absent; `None` if it is of the wrong type.
    pub(crate) fn or(&self, default: T) -> Option<T> {
        self.checked().ok().map(|spanned| spanned.map_or(default, |spanned| spanned.value.clone()))
    }

    /// Returns the value, or `None` if absent; the outer `None` if it is of the wrong type.
    #[expect(clippy::option_option, reason = "the outer one tells a wrong value from an absent one")]
    pub(crate) fn optional(&self) -> Option<Option<T>> {
        self.checked().ok().map(|spanned| spanned.map(|spanned| spanned.value.clone()))
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
pub(crate) struct Named<T>(pub(crate) Vec<(String, T)>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Named<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Entries<T> {
            type Value = Named<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Named<T>, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Named(entries))
            }
        }

        deserializer.deserialize_map(Entries(PhantomData))
    }
}

#[cfg(test)]
impl<T: schemars::JsonSchema> schemars::JsonSchema for Named<T> {
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

impl Texts {
    /// Returns each text with its place.
    pub(crate) fn items(&self) -> &[Spanned<String>] {
        match self {
            Self::Scalar(text) => std::slice::from_ref(text),
            Self::Seq(items) => items,
        }
    }

    /// Returns each text, split at commas, with its place. Drops empty parts.
    pub(crate) fn split(&self) -> impl Iterator<Item = Spanned<&str>> {
        self.items()
            .iter()
            .flat_map(|text| text.value.split(',').map(|part| Spanned { value: part.trim(), span: text.span }))
            .filter(|part| !part.value.is_empty())
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

impl<T> Given<Vec<Given<T>>> {
    /// Returns the items with their places, or `None` if the list is absent; the outer `None` if one is of the wrong
    /// type.
    #[expect(clippy::option_option, reason = "the outer one tells a wrong value from an absent one")]
    pub(crate) fn items(&self) -> Option<Option<Vec<&Spanned<T>>>> {
        let Some(list) = self.checked().ok()? else { return Some(None) };
        let items = list.value.iter().filter(|item| item.is_given());
        items.map(Given::spanned).collect::<Option<Vec<_>>>().map(Some)
    }
}
