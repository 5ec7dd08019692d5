//! Raw values that know where they stand.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::{Deserialize, Deserializer, Error, SeqAccess, Visitor};

use super::de::{SPOT, WHOLE};
use super::yaml::Origin;

/// A value and where it stands. Reads like the value alone.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spot<T> {
    pub(crate) value: T,
    pub(crate) origin: Origin,
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Spot<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Both<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Both<T> {
            type Value = Spot<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a value of a configuration")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Spot<T>, A::Error> {
                let place = seq.next_element()?.ok_or_else(|| A::Error::custom("no place"))?;
                let value = seq.next_element()?.ok_or_else(|| A::Error::custom("no value"))?;
                Ok(Spot { value, origin: Origin::new(place) })
            }
        }

        deserializer.deserialize_newtype_struct(SPOT, Both(PhantomData))
    }
}

impl<T: JsonSchema> JsonSchema for Spot<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        T::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        generator.subschema_for::<T>()
    }
}

/// A whole node, kept by its origin for somebody who reads it himself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Whole(pub(crate) Origin);

impl<'de> Deserialize<'de> for Whole {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Place;

        impl Visitor<'_> for Place {
            type Value = Whole;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a place in a configuration")
            }

            fn visit_u32<E>(self, place: u32) -> Result<Whole, E> {
                Ok(Whole(Origin::new(place)))
            }
        }

        deserializer.deserialize_newtype_struct(WHOLE, Place)
    }
}

impl JsonSchema for Whole {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Anything".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        schemars::json_schema!(true)
    }
}
