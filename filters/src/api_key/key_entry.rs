//! Entry of one key, read from the events of the YAML parser.

use std::borrow::Cow;
use std::sync::Arc;

use granit_parser::{Event, Parser, ScalarStyle, StrInput};
use thiserror::Error;

use super::expiry;
use super::identity::ApiKey;
use super::table::{KeyHash, hex, unhex};

/// Longest id in bytes.
const MAX_ID: usize = 128;
/// Names of fields. Another name may be a key in the wrong place.
const FIELDS: [&str; 6] = ["id", "sha256", "plan", "expires", "routes", "disabled"];
/// Names of fields that may hold a key in clear text.
const CLEAR_TEXT: [&str; 8] = ["key", "api-key", "apikey", "api_key", "secret", "token", "password", "value"];

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

/// Fields of an entry.
#[derive(Default)]
pub(super) struct Entry<'t> {
    id: Option<Cow<'t, str>>,
    pub(super) sha256: Option<KeyHash>,
    plan: Option<Cow<'t, str>>,
    routes: Option<Vec<Box<str>>>,
    expires: Option<u64>,
    disabled: bool,
}

// === impl ApiKey ===

impl ApiKey {
    /// Reads an entry in YAML or JSON. Its hash may be absent.
    ///
    /// # Errors
    /// The text is no such entry.
    pub fn parse(text: &str) -> Result<(Self, Option<KeyHash>), EntryError> {
        let mut reader = Reader::new(text);
        match reader.next()? {
            Event::MappingStart(..) => {}
            _ => return Err(reader.error("expected an entry such as `{id: alice, plan: gold}`")),
        }
        let entry = reader.entry()?.map_err(|message| reader.error(message))?;
        let hash = entry.sha256;
        let key = entry.key().map_err(|message| reader.error(message))?;
        match reader.next()? {
            Event::StreamEnd => Ok((key, hash)),
            _ => Err(reader.error("expected one entry")),
        }
    }

    /// Reads the entry of the key with `hash`, which it may repeat.
    ///
    /// # Errors
    /// The text is no such entry.
    pub fn parse_of(hash: &KeyHash, text: &str) -> Result<Self, EntryError> {
        match Self::parse(text)? {
            (_, Some(repeated)) if repeated != *hash => {
                Err(EntryError { line: 1, message: "its `sha256` is not the name of its field".to_owned() })
            }
            (key, _) => Ok(key),
        }
    }

    /// Reads a field of a hash in Redis, whose name is the hash of the key. Returns `None` for fields that no request can use.
    #[must_use]
    pub fn of_field(name: &str, text: &str) -> Option<(KeyHash, Self)> {
        // Look-ups use lower-case digits.
        let hash = unhex(name).filter(|hash| hex(hash) == name)?;
        Some((hash, Self::parse_of(&hash, text).ok()?))
    }
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

    /// Reads the fields of an entry to its end. The inner error is one of the entry alone.
    pub(super) fn entry(&mut self) -> Result<Result<Entry<'t>, String>, EntryError> {
        let (mut entry, mut seen, mut error) = (Entry::default(), Vec::new(), None);
        loop {
            let name = match self.next()? {
                Event::Scalar(name, ..) => name,
                Event::MappingEnd => return Ok(error.map_or(Ok(entry), Err)),
                _ => return Err(self.error("expected the name of a field")),
            };
            let value = self.value(&name)?;
            // The first error of an entry is enough.
            if error.is_none() {
                let is_repeated = seen.contains(&name);
                let set = if is_repeated { Err(format!("`{name}` is given twice")) } else { entry.set(&name, value) };
                error = set.err();
                seen.push(name);
                debug_assert!(seen.len() <= FIELDS.len() + 1, "each name is compared with those before it");
            }
        }
    }
}

// === impl Entry ===

impl<'t> Entry<'t> {
    pub(super) fn set(&mut self, name: &str, value: Value<'t>) -> Result<(), String> {
        let text = |value: Value<'t>| match value {
            Value::Text(text) => Ok(Some(text)),
            Value::Null => Ok(None),
            Value::List(_) => Err(format!("`{name}` must be a text")),
        };
        match name {
            "id" => self.id = text(value)?,
            "sha256" => self.sha256 = text(value)?.map(|text| sha256(&text)).transpose()?,
            "plan" => self.plan = text(value)?,
            "expires" => {
                let expires = text(value)?.map(|text| {
                    let error = "`expires` must be a time such as `2027-01-01T00:00:00Z`";
                    expiry::parse(&text).ok_or_else(|| error.to_owned())
                });
                self.expires = expires.transpose()?;
            }
            "disabled" => {
                self.disabled = match text(value)?.as_deref() {
                    None | Some("false") => false,
                    Some("true") => true,
                    Some(_) => return Err("`disabled` must be `true` or `false`".to_owned()),
                }
            }
            "routes" => {
                self.routes = match value {
                    Value::List(names) => Some(names.iter().map(|name| Box::from(&**name)).collect()),
                    Value::Text(name) => Some(vec![name.into()]),
                    Value::Null => None,
                }
            }
            name if CLEAR_TEXT.contains(&name.to_ascii_lowercase().as_str()) => {
                return Err(format!(
                    "`{name}` may hold a key in clear text, which is never stored; write its hash, `sha256: …`, which `tollgate keys hash` prints, and replace the key, since the file has shown it"
                ));
            }
            _ => {
                return Err(
                    "unknown field; an entry has `id`, `sha256`, `plan`, `expires`, `routes` and `disabled`".to_owned()
                );
            }
        }
        Ok(())
    }

    /// Returns the key.
    pub(super) fn key(self) -> Result<ApiKey, String> {
        let id = self.id.ok_or("an entry has no `id`, the name under which its requests are counted")?;
        if id.is_empty() || id.len() > MAX_ID || !id.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(format!("`id` must have 1 to {MAX_ID} visible ASCII characters, without spaces"));
        }
        Ok(ApiKey {
            id: id.into(),
            plan: self.plan.map(|plan| Arc::from(&*plan)),
            routes: self.routes.map(Arc::from),
            expires: self.expires,
            disabled: self.disabled,
        })
    }
}

/// Returns the name of a field for messages.
fn shown(name: &str) -> String {
    if FIELDS.contains(&name) { format!("`{name}`") } else { "the value of an unknown field".to_owned() }
}

/// Reads a hash of 64 hex digits. The error does not show the text, which may be a key.
fn sha256(text: &str) -> Result<KeyHash, String> {
    unhex(text).ok_or_else(|| {
        let length = text.chars().count();
        format!("`sha256` must be a hash of 64 hex digits, found {length} characters; `tollgate keys hash` prints the hash of a key")
    })
}
