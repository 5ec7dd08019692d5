//! From spans to lines and columns.
//!
//! Values come from `serde_yaml`, which tells a position only in an error. So this module runs after the reading, and
//! only if there are diagnostics: a [`Walk`] reads the text again, visits the wanted nodes and returns an error at each.
//! The parser adds its current position to that error; the caller reads the position from the message and continues.
//!
//! One reading finds all positions but those of empty lists and maps: behind the error of an empty one the parser
//! cannot continue, so each takes one more reading, up to [`MAX_READINGS`].
//!
//! An event parser beside `serde_yaml` would need one reading and half the code. `libyaml-safer` 0.3 gave the same
//! positions for every file of the repository, but panics on a tag before a comma (`{a: !x, b: c}`), so it is not used.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt;

use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, EnumAccess, Error, IgnoredAny, MapAccess, SeqAccess, VariantAccess,
    Visitor,
};

use crate::yaml::span::{Places, Span};

/// Marks an error that only reports a position.
const HERE: char = '\u{1}';
/// Marks the same of an empty map or list, behind which the parser cannot continue.
const EMPTY: char = '\u{2}';
/// Readings of the text at most.
const MAX_READINGS: usize = 100;

/// Line and column, both 1-based.
type Location = (usize, usize);

/// Returns the line and column of each of `spans` in `text`; `None` for those that are not found.
pub(crate) fn locate(text: &str, places: &Places, spans: &[Span]) -> Vec<Option<Location>> {
    let found = Found {
        lines: text.split('\n').collect(),
        at: RefCell::new(vec![None; spans.len()]),
        carries: Cell::new(false),
    };
    for _ in 0..MAX_READINGS {
        let missing = found.missing(places, spans);
        if missing.is_empty() || !found.read(text, &missing) {
            break;
        }
    }
    let located = found.at.borrow();
    let spans = spans.iter().zip(located.iter());
    spans.map(|(span, at)| at.map(|at| found.argument(at, span.argument).unwrap_or(at))).collect()
}

/// Indices of the spans that are wanted at one node and below it.
#[derive(Default)]
struct Wanted {
    /// Spans of the node itself.
    here: Vec<usize>,
    /// Spans of the key that leads to it.
    key: Vec<usize>,
    below: BTreeMap<u32, Wanted>,
}

struct Found<'t> {
    lines: Vec<&'t str>,
    at: RefCell<Vec<Option<Location>>>,
    /// True while the current error holds the position of the nodes that it passes through.
    carries: Cell<bool>,
}

// === impl Found ===

impl Found<'_> {
    /// Returns the spans that are not found yet, by document.
    fn missing(&self, places: &Places, spans: &[Span]) -> BTreeMap<usize, Wanted> {
        let mut documents: BTreeMap<usize, Wanted> = BTreeMap::new();
        let found = self.at.borrow();
        for (index, span) in spans.iter().enumerate().filter(|(index, _)| found[*index].is_none()) {
            let Some(place) = places.get(*span) else { continue };
            let wanted = documents.entry(place.document).or_default();
            let wanted = place.path.iter().fold(wanted, |wanted, step| wanted.below.entry(*step).or_default());
            if span.key && !place.path.is_empty() { wanted.key.push(index) } else { wanted.here.push(index) }
        }
        documents
    }

    /// Reads the text once; returns false if that found nothing.
    fn read(&self, text: &str, documents: &BTreeMap<usize, Wanted>) -> bool {
        let before = self.count();
        // The parser repeats a syntax error without end.
        let documents_read = documents.keys().next_back().map_or(0, |last| last + 1);
        for (number, document) in serde_yaml::Deserializer::from_str(text).enumerate().take(documents_read) {
            if let Some(wanted) = documents.get(&number) {
                let walk = Walk { found: self, wanted: Some(wanted), asked: !wanted.here.is_empty(), first: false };
                let result = walk.deserialize(document);
                // Other errors were reported by the first reading.
                let _ = walk.arrived(result);
            }
        }
        self.count() > before
    }

    fn count(&self) -> usize {
        self.at.borrow().iter().flatten().count()
    }

    fn note(&self, indices: &[usize], at: Option<Location>) {
        let mut found = self.at.borrow_mut();
        indices.iter().for_each(|index| found[*index] = found[*index].or(at));
    }

    /// Returns the beginning of a map or list from the position of its first key or item: the character before it, if
    /// that is one of `openers`.
    fn beginning(&self, first: Location, openers: &[char]) -> Location {
        let (line, column) = first;
        let mut before = column.saturating_sub(1);
        for (index, text) in self.lines.iter().enumerate().take(line).rev() {
            let chars = text.chars().take(before).enumerate();
            if let Some((at, char)) = chars.filter(|(_, char)| !char.is_whitespace()).last() {
                return if openers.contains(&char) { (index + 1, at + 1) } else { first };
            }
            before = usize::MAX;
        }
        first
    }

    /// Returns the position of the `number`th argument of the shortcut that begins at a position, if it is on the same
    /// line.
    fn argument(&self, (line, column): Location, number: u8) -> Option<Location> {
        let shown = self.lines.get(line.checked_sub(1)?)?;
        let start = shown.char_indices().nth(column.checked_sub(1)?)?.0;
        let mut end = start;
        for separator in std::iter::once('=').chain(std::iter::repeat(',')).take(number.into()) {
            end += shown.get(end..)?.find(separator)? + 1;
        }
        let rest = shown.get(end..)?;
        end += rest.len() - rest.trim_start().len();
        Some((line, shown.get(..end)?.chars().count() + 1))
    }
}

/// Returns the position that the parser added to an error with this `mark`.
fn position(error: &str, mark: char) -> Option<Location> {
    let (_, place) = error.rsplit_once(mark)?;
    // The parser adds no position at the beginning of the text.
    let Some((line, column)) = place.strip_prefix(" at line ").and_then(|place| place.split_once(" column ")) else {
        return Some((1, 1));
    };
    Some((line.parse().ok()?, column.parse().ok()?))
}

/// Visitor of one node. Its value is the position of the node, if that is asked; a scalar reports it as an error.
#[derive(Clone, Copy)]
struct Walk<'w> {
    found: &'w Found<'w>,
    wanted: Option<&'w Wanted>,
    asked: bool,
    /// True for the first item of a list.
    first: bool,
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
    fn arrived<E: Error>(self, result: Result<Option<Location>, E>) -> Result<Option<Location>, E> {
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

#[cfg(test)]
mod tests;
