//! Visitor that finds the positions of nodes from the errors of the parser.

use std::fmt;

use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, EnumAccess, Error, IgnoredAny, MapAccess, SeqAccess, VariantAccess,
    Visitor,
};

use crate::yaml::locate::found::{Found, Location, Wanted};

/// Marks an error that only reports a position.
const HERE: char = '\u{1}';
/// Marks an error that only reports the position of an empty map or list. The parser cannot continue after it.
const EMPTY: char = '\u{2}';

/// Returns the position that the parser added to an error with this `mark`.
fn position(error: &str, mark: char) -> Option<Location> {
    let (_, place) = error.rsplit_once(mark)?;
    // The parser adds no position at the beginning of the text.
    let Some((line, column)) = place.strip_prefix(" at line ").and_then(|place| place.split_once(" column ")) else {
        return Some((1, 1));
    };
    Some((line.parse().ok()?, column.parse().ok()?))
}

/// Visitor of one node. Its value is the position of the node, if that is wanted; a scalar reports it as an error.
#[derive(Clone, Copy)]
pub(super) struct Walk<'w> {
    pub(super) found: &'w Found<'w>,
    pub(super) wanted: Option<&'w Wanted>,
    pub(super) asked: bool,
    /// True for the first item of a list.
    pub(super) first: bool,
}

// === impl Walk ===

impl<'w> Walk<'w> {
    fn scalar<E: Error>(self) -> Result<Option<Location>, E> {
        if self.asked { Err(E::custom(HERE)) } else { Ok(None) }
    }

    fn empty<E: Error>(self) -> Result<Option<Location>, E> {
        if !self.asked {
            return Ok(None);
        }
        self.found.carries.set(true);
        Err(E::custom(EMPTY))
    }

    /// Returns the visitor of the child at `index`.
    fn to(self, index: u32, first: bool) -> Self {
        let wanted = self.wanted.and_then(|wanted| wanted.below.get(&index));
        let asked = first || wanted.is_some_and(|wanted| !wanted.here.is_empty());
        Self { found: self.found, wanted, asked, first }
    }

    /// Records the position that the visit of this node found.
    pub(super) fn arrived<E: Error>(self, result: Result<Option<Location>, E>) -> Result<Option<Location>, E> {
        // The key before a value was recorded when it was read.
        let places = |wanted: &'w Wanted| [wanted.here.as_slice(), &wanted.key];
        let note = |at| self.wanted.into_iter().flat_map(places).for_each(|places| self.found.note(places, at));
        let error = match result {
            Ok(at) => {
                note(at);
                return Ok(at);
            }
            Err(error) => error,
        };
        let text = error.to_string();
        if let Some(at) = position(&text, HERE) {
            note(Some(at));
            return Ok(Some(at));
        }
        if self.found.carries.get() {
            note(position(&text, EMPTY));
            self.found.carries.set(self.first);
        }
        Err(error)
    }
}

impl<'de> DeserializeSeed<'de> for Walk<'_> {
    type Value = Option<Location>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        if self.asked || self.wanted.is_some() {
            deserializer.deserialize_any(self)
        } else {
            IgnoredAny::deserialize(deserializer).map(|_| None)
        }
    }
}

impl<'de> Visitor<'de> for Walk<'_> {
    type Value = Option<Location>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any YAML")
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<Self::Value, E> {
        self.scalar()
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<Self::Value, E> {
        self.scalar()
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<Self::Value, E> {
        self.scalar()
    }

    fn visit_i128<E: Error>(self, _: i128) -> Result<Self::Value, E> {
        self.scalar()
    }

    fn visit_u128<E: Error>(self, _: u128) -> Result<Self::Value, E> {
        self.scalar()
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<Self::Value, E> {
        self.scalar()
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<Self::Value, E> {
        self.scalar()
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        self.scalar()
    }

    fn visit_none<E: Error>(self) -> Result<Self::Value, E> {
        self.scalar()
    }

    /// Visits the value behind a tag.
    fn visit_enum<A: EnumAccess<'de>>(self, data: A) -> Result<Self::Value, A::Error> {
        let (_, tagged) = data.variant::<IgnoredAny>()?;
        tagged.newtype_variant_seed(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut beginning = None;
        for index in 0.. {
            let is_first = index == 0 && self.asked;
            let mut item = self.to(index, is_first);
            // An item has no key: its own position is used.
            item.asked |= item.wanted.is_some_and(|wanted| !wanted.key.is_empty());
            let result = match seq.next_element_seed(item) {
                Ok(None) if index == 0 => return self.empty(),
                Ok(None) => break,
                Ok(Some(at)) => Ok(at),
                Err(error) => Err(error),
            };
            let at = item.arrived(result)?;
            if is_first {
                beginning = at.map(|at| self.found.beginning(at, &['[', '-']));
            }
        }
        Ok(beginning)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut beginning = None;
        for index in 0.. {
            let is_first = index == 0 && self.asked;
            let value = self.to(index, false);
            let wanted = value.wanted.map_or([].as_slice(), |wanted| wanted.key.as_slice());
            let key = Self { asked: is_first || !wanted.is_empty(), wanted: None, ..self };
            let result = match map.next_key_seed(key) {
                Ok(None) if index == 0 => return self.empty(),
                Ok(None) => break,
                Ok(Some(at)) => Ok(at),
                Err(error) => Err(error),
            };
            let at = key.arrived(result)?;
            self.found.note(wanted, at);
            if is_first {
                beginning = at.map(|at| self.found.beginning(at, &['{']));
            }
            value.arrived(map.next_value_seed(value))?;
        }
        Ok(beginning)
    }
}
