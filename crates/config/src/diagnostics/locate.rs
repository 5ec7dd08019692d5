//! From spans to files, lines and columns.

use crate::diagnostics::text::{Format, SourceText};
use crate::yaml::locate;
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
        let found = match source.format {
            Format::Yaml => locate::locate(&source.text, places, &own),
        };
        for (at, found) in at.into_iter().zip(found) {
            let (line, column) = found.unwrap_or_default();
            located[at] = (file, line, column);
        }
    }
    located
}
