//! From a place to a line and a column.
//!
//! Nobody needs lines until there is a problem. Then the text is read once more by a walker that descends to the place
//! and fails there: the parser puts its current position into the error.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::yaml::{Origin, Places};

/// Line and column of `origin` in `text`, both from 1.
pub(crate) fn locate(text: &str, places: &Places, origin: Origin) -> Option<(usize, usize)> {
    let place = places.get(origin)?;
    let document = serde_yaml::Deserializer::from_str(text).nth(place.document)?;
    let walk = Walk { path: &place.path, key: origin.key && !place.path.is_empty() };
    let location = walk.deserialize(document).err()?.location()?;
    let at = (location.line(), location.column());
    Some(argument(text, at, origin.argument).unwrap_or(at))
}

/// The place of the shortcut's `number`th argument, where it stands on the line on which the shortcut begins.
fn argument(text: &str, (line, column): (usize, usize), number: u8) -> Option<(usize, usize)> {
    let shown = text.lines().nth(line.checked_sub(1)?)?;
    let start = shown.char_indices().nth(column.checked_sub(1)?)?.0;
    let mut end = start;
    for separator in std::iter::once('=').chain(std::iter::repeat(',')).take(number.into()) {
        end += shown.get(end..)?.find(separator)? + 1;
    }
    let rest = shown.get(end..)?;
    end += rest.len() - rest.trim_start().len();
    Some((line, shown.get(..end)?.chars().count() + 1))
}

#[derive(Clone, Copy)]
struct Walk<'p> {
    path: &'p [u32],
    key: bool,
}

impl<'de> DeserializeSeed<'de> for Walk<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl Walk<'_> {
    fn here<E: serde::de::Error>(self) -> Result<(), E> {
        Err(E::custom("here"))
    }
}

impl<'de> Visitor<'de> for Walk<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the place")
    }

    fn visit_bool<E: serde::de::Error>(self, _: bool) -> Result<(), E> {
        self.here()
    }

    fn visit_i64<E: serde::de::Error>(self, _: i64) -> Result<(), E> {
        self.here()
    }

    fn visit_u64<E: serde::de::Error>(self, _: u64) -> Result<(), E> {
        self.here()
    }

    fn visit_i128<E: serde::de::Error>(self, _: i128) -> Result<(), E> {
        self.here()
    }

    fn visit_u128<E: serde::de::Error>(self, _: u128) -> Result<(), E> {
        self.here()
    }

    fn visit_f64<E: serde::de::Error>(self, _: f64) -> Result<(), E> {
        self.here()
    }

    fn visit_str<E: serde::de::Error>(self, _: &str) -> Result<(), E> {
        self.here()
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<(), E> {
        self.here()
    }

    fn visit_none<E: serde::de::Error>(self) -> Result<(), E> {
        self.here()
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        let Some((&wanted, path)) = self.path.split_first() else { return self.here() };
        for _ in 0..wanted {
            seq.next_element::<IgnoredAny>()?;
        }
        seq.next_element_seed(Walk { path, ..self })?;
        Err(A::Error::custom("place not found"))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Some((&wanted, path)) = self.path.split_first() else { return self.here() };
        for _ in 0..wanted {
            map.next_entry::<IgnoredAny, IgnoredAny>()?;
        }
        if self.key && path.is_empty() {
            map.next_key_seed(Walk { path, key: false })?;
        }
        map.next_key::<IgnoredAny>()?;
        map.next_value_seed(Walk { path, ..self })
    }
}
