//! Events of a text that is a list of entries, or one entry.

use std::borrow::Cow;

use granit_parser::{Event, Parser, ScalarStyle, StrInput};
use thiserror::Error;

use super::entry::shown;

/// Error of one entry. It never shows the value of a field that may be a key.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("line {line}: {message}")]
#[non_exhaustive]
pub struct EntryError {
    /// Line in the file, from 1.
    pub line: usize,
    /// Description of the error, and the remedy.
    pub message: String,
}

/// Value of a field.
pub(super) enum Value<'t> {
    Text(Cow<'t, str>),
    List(Vec<Cow<'t, str>>),
    Null,
}

/// Events of a text.
pub(super) struct Reader<'t> {
    events: Parser<'t, StrInput<'t>>,
    pub(super) line: usize,
}

// === impl Reader ===

impl<'t> Reader<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        Self { events: Parser::new_from_str(text), line: 1 }
    }

    /// Returns the next event that has content.
    pub(super) fn next(&mut self) -> Result<Event<'t>, EntryError> {
        loop {
            let Some(event) = self.events.next() else { return Ok(Event::StreamEnd) };
            // The parser's message may have a part of the text.
            let (event, span) = event.map_err(|error| EntryError {
                line: error.marker().line(),
                message: format!("not valid YAML in column {}", error.marker().col() + 1),
            })?;
            self.line = span.start.line();
            match event {
                Event::StreamStart | Event::DocumentStart(..) | Event::DocumentEnd | Event::Anchor(..) => {}
                event => return Ok(event),
            }
        }
    }

    pub(super) fn error(&self, message: impl Into<String>) -> EntryError {
        EntryError { line: self.line, message: message.into() }
    }

    /// Reads the value of the field `name`.
    pub(super) fn value(&mut self, name: &str) -> Result<Value<'t>, EntryError> {
        match self.next()? {
            Event::Scalar(text, ScalarStyle::Plain, ..) if ["", "~", "null"].contains(&&*text) => Ok(Value::Null),
            Event::Scalar(text, ..) => Ok(Value::Text(text)),
            Event::SequenceStart(..) => {
                let mut items = Vec::new();
                loop {
                    match self.next()? {
                        Event::Scalar(text, ..) => items.push(text),
                        Event::SequenceEnd => return Ok(Value::List(items)),
                        _ => return Err(self.error(format!("{} must be a list of texts", shown(name)))),
                    }
                }
            }
            _ => Err(self.error(format!("{} must be a text or a list of texts", shown(name)))),
        }
    }
}
