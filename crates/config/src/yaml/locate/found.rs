//! Spans whose positions a walk must find, and the positions found so far.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use crate::yaml::span::{Places, Span};

/// Line and column, both 1-based.
pub(crate) type Location = (usize, usize);

/// Indices of the spans that are wanted at one node and below it.
#[derive(Default)]
pub(super) struct Wanted {
    /// Spans of the node itself.
    pub(super) here: Vec<usize>,
    /// Spans of the key that leads to it.
    pub(super) key: Vec<usize>,
    /// Spans of the node's children, by the position of their entries.
    pub(super) below: BTreeMap<u32, Wanted>,
}

/// Positions that walks over one file have found.
pub(super) struct Found<'t> {
    /// Lines of the file.
    pub(super) lines: Vec<&'t str>,
    /// Position of each span, by its index; `None` until it is found.
    pub(super) at: RefCell<Vec<Option<Location>>>,
    /// True while the current error holds the position of the nodes that it passes through.
    pub(super) carries: Cell<bool>,
}

// === impl Found ===

impl Found<'_> {
    /// Returns the spans that are not found yet, by document.
    pub(super) fn missing(&self, places: &Places, spans: &[Span]) -> BTreeMap<usize, Wanted> {
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

    pub(super) fn count(&self) -> usize {
        self.at.borrow().iter().flatten().count()
    }

    pub(super) fn note(&self, indices: &[usize], at: Option<Location>) {
        let mut found = self.at.borrow_mut();
        indices.iter().for_each(|index| found[*index] = found[*index].or(at));
    }

    /// Returns the beginning of a map or list from the position of its first key or item: the character before it, if
    /// that is one of `openers`.
    pub(super) fn beginning(&self, first: Location, openers: &[char]) -> Location {
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
}

/// Returns the position of the `number`th argument of the shortcut that begins at a position of `lines`, if it is on the
/// same line.
pub(crate) fn argument(lines: &[&str], (line, column): Location, number: u8) -> Option<Location> {
    let shown = lines.get(line.checked_sub(1)?)?;
    let start = shown.char_indices().nth(column.checked_sub(1)?)?.0;
    let mut end = start;
    for separator in std::iter::once('=').chain(std::iter::repeat(',')).take(number.into()) {
        end += shown.get(end..)?.find(separator)? + 1;
    }
    let rest = shown.get(end..)?;
    end += rest.len() - rest.trim_start().len();
    Some((line, shown.get(..end)?.chars().count() + 1))
}
