//! From spans to lines and columns.
//!
//! Lines are needed only when there are diagnostics, so this is a second reading: [`libyaml_safer`], a safe port of the
//! parser that `serde_yaml` has inside, gives events with positions. They become one tree of positions per document,
//! which is walked along the path of each span. Both readings see the same documents, entries and aliases; where a
//! path leads further than the tree, the last position on it counts.

mod tree;

use crate::yaml::locate::tree::Location;
use crate::yaml::span::{Places, Span};

/// Returns the line and column of each of `spans` in `text`, both 1-based.
pub(crate) fn locate(text: &str, places: &Places, spans: &[Span]) -> Vec<Option<Location>> {
    let documents = spans.iter().filter_map(|span| places.get(*span)).map(|place| place.document + 1).max();
    let trees = tree::read(text, documents.unwrap_or(0));
    let lines: Vec<&str> = text.split('\n').collect();
    let locate_one = |span: &Span| {
        let place = places.get(*span)?;
        // A text without content is a document without nodes.
        let at = trees.get(place.document).and_then(|tree| tree.locate(&place.path, span.key)).unwrap_or((1, 1));
        Some(argument(&lines, at, span.argument).unwrap_or(at))
    };
    spans.iter().map(locate_one).collect()
}

/// Returns the position of the `number`th argument of the shortcut at a position, if it is on the same line.
fn argument(lines: &[&str], (line, column): Location, number: u8) -> Option<Location> {
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

#[cfg(test)]
mod tests;
