//! From spans to files, lines and columns.

use crate::diagnostics::text::{Format, SourceText};
use crate::java_properties;
use crate::yaml::locate::{self, Location, argument};
use crate::yaml::{Places, Span};

/// File, line and column; line and column are 0 if they are unknown.
pub(super) type At = (usize, usize, usize);

/// Returns the place of each of `spans` in the files of `text`.
pub(super) fn locate(text: &SourceText, places: &Places, spans: &[Span]) -> Vec<At> {
    let file_of = |span: &Span| places.get(*span).map_or(0, |place| place.file);
    let mut located: Vec<At> = spans.iter().map(|span| (file_of(span), 0, 0)).collect();
    for (file, source) in text.files.iter().enumerate() {
        let (at, own): (Vec<usize>, Vec<Span>) =
            spans.iter().enumerate().filter(|(_, span)| file_of(span) == file).map(|(at, span)| (at, *span)).unzip();
        if own.is_empty() {
            continue;
        }
        let found = match &source.format {
            Format::Yaml => locate::locate(&source.text, places, &own),
            Format::Properties => in_properties(&source.text, places, &own),
            Format::Json | Format::Value(_) | Format::Argument => Vec::new(),
        };
        for (at, found) in at.into_iter().zip(found) {
            let (line, column) = found.unwrap_or_default();
            located[at] = (file, line, column);
        }
    }
    located
}

/// Returns the position of each of `spans` in a file of properties: that of the property's key or value.
fn in_properties(text: &str, places: &Places, spans: &[Span]) -> Vec<Option<Location>> {
    let documents = java_properties::parse(text).unwrap_or_default();
    let lines: Vec<&str> = text.split('\n').collect();
    let position = |span: &Span| {
        let place = places.get(*span)?;
        let number = place.path.first().map_or(0, |number| *number as usize);
        // An empty file has no property.
        let Some(property) = documents.get(place.document).and_then(|properties| properties.get(number)) else {
            return Some((1, 1));
        };
        if span.key || place.path.is_empty() {
            return Some(property.key_at);
        }
        argument(&lines, property.value_at, span.argument).or(Some(property.value_at))
    };
    spans.iter().map(position).collect()
}
