//! Errors of a text at their positions.

use std::ops::Range;

use granit_parser::{ErrorKind, ScanError};

use super::Builder;
use crate::yaml::parse::Problem;
use crate::yaml::position;
use crate::yaml::span::{Bytes, Span};
use crate::yaml::syntax::{self, Described};

impl Builder<'_> {
    pub(super) fn no_plain_key(&self, is_list: bool, at: Range<usize>) -> Problem {
        let found = if is_list { "sequence" } else { "map" };
        self.error(at, &format!("invalid type: {found}, expected a plain key"))
    }

    pub(super) fn error(&self, at: Range<usize>, message: &str) -> Problem {
        let at = Span::new(self.file, Bytes::new(at));
        Problem { at, message: format!("not valid YAML: {message}"), help: None }
    }

    pub(super) fn syntax_error(&self, error: &ScanError) -> Problem {
        let mut at = self.marked.original(error.marker().byte_offset().unwrap_or_default());
        if *error.kind() == ErrorKind::TabInBlockIndentation {
            // The parser is behind the tab.
            at = self.text.get(..at).map_or(at, |before| before.trim_end_matches('\t').len());
        }
        let Described { message, help, is_about_collection } = syntax::describe(error.kind());
        let begin = self.open.last().filter(|_| is_about_collection).map_or(0, |open| open.span.bytes().range().start);
        let help = help.map(|help| match position::line_column(self.text, begin) {
            _ if begin == 0 => help.to_owned(),
            (line, column) => format!("{help}; the list, map or text in question begins at {line}:{column}"),
        });
        Problem { help, ..self.error(at..at, &message) }
    }
}
