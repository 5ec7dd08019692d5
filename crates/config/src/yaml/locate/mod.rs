//! From spans to lines and columns.
//!
//! Values come from `serde_yaml`, which reports positions only in errors. So this module runs after the reading, and
//! only if there are diagnostics: a [`Walk`] reads the text again, visits the wanted nodes and returns an error at each.
//! The parser adds its current position to that error; the caller reads the position from the message and continues.
//!
//! One reading finds all positions but those of empty lists and maps: behind the error of an empty one the parser
//! cannot continue, so each takes one more reading, up to [`MAX_READINGS`].
//!
//! An event parser beside `serde_yaml` would need one reading and half the code. `libyaml-safer` 0.3 gave the same
//! positions for every file of the repository, but panics on a tag before a comma (`{a: !x, b: c}`), so it is not used.

mod found;
mod walk;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use serde::de::DeserializeSeed;

pub(crate) use crate::yaml::locate::found::{Location, argument};

use crate::yaml::locate::found::{Found, Wanted};
use crate::yaml::locate::walk::Walk;
use crate::yaml::maven::marked;
use crate::yaml::span::{Places, Span};

/// Readings of the text at most.
const MAX_READINGS: usize = 100;

/// Returns the line and column of each of `spans` in the file `text`; `None` for those that are not found.
pub(crate) fn locate(text: &str, places: &Places, spans: &[Span]) -> Vec<Option<Location>> {
    let text = &*marked(text).0;
    let found = Found {
        lines: text.split('\n').collect(),
        at: RefCell::new(vec![None; spans.len()]),
        carries: Cell::new(false),
    };
    for _ in 0..MAX_READINGS {
        let missing = found.missing(places, spans);
        if missing.is_empty() || !read(&found, text, &missing) {
            break;
        }
    }
    let located = found.at.borrow();
    let spans = spans.iter().zip(located.iter());
    spans.map(|(span, at)| at.map(|at| argument(&found.lines, at, span.argument).unwrap_or(at))).collect()
}

/// Reads the text once. Returns false if that found nothing.
fn read(found: &Found<'_>, text: &str, documents: &BTreeMap<usize, Wanted>) -> bool {
    let before = found.count();
    // The parser repeats a syntax error endlessly.
    let documents_read = documents.keys().next_back().map_or(0, |last| last + 1);
    for (number, document) in serde_yaml::Deserializer::from_str(text).enumerate().take(documents_read) {
        if let Some(wanted) = documents.get(&number) {
            let walk = Walk { found, wanted: Some(wanted), asked: !wanted.here.is_empty(), first: false };
            let result = walk.deserialize(document);
            // Other errors were reported by the first reading.
            let _ = walk.arrived(result);
        }
    }
    found.count() > before
}

#[cfg(test)]
mod tests;
