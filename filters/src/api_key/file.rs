//! File of keys.
//!
//! The events of the parser become rows of the table at once: a file of a million keys has no tree.

use std::fmt;

use granit_parser::Event;
use thiserror::Error;

use super::key_entry::{EntryError, Reader};
use super::lines;
use super::table::{BuildError, Builder, KeyTable};

/// Errors that one report lists. Others are counted.
const MAX_LISTED: usize = 5;

/// Errors of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Error)]
#[non_exhaustive]
pub struct KeyFileError {
    /// The first errors.
    pub errors: Vec<EntryError>,
    /// Number of further errors.
    pub more: usize,
}

impl fmt::Display for KeyFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.errors.iter().enumerate() {
            write!(f, "{}{error}", if index == 0 { "" } else { "; " })?;
        }
        if self.more > 0 { write!(f, "; and {} more", self.more) } else { Ok(()) }
    }
}

// === impl KeyTable ===

impl KeyTable {
    /// Reads a list of entries in YAML or JSON.
    ///
    /// # Errors
    /// The text is no such list, or an entry is invalid.
    pub fn parse(text: &str) -> Result<Self, KeyFileError> {
        match lines::read(text).map(Builder::build) {
            Some(Ok(table)) => Ok(table),
            _ => Self::parse_yaml(text),
        }
    }

    /// Reads a list of entries in any form.
    pub(super) fn parse_yaml(text: &str) -> Result<Self, KeyFileError> {
        let (mut reader, mut builder) = (Reader::new(text), Builder::default());
        let mut errors = KeyFileError::default();
        if let Err(error) = reader.list(&mut builder, &mut errors) {
            errors.add(error);
        }
        match builder.build() {
            Ok(table) if errors.errors.is_empty() => return Ok(table),
            Ok(_) => {}
            Err(error) => errors.add(EntryError { line: 1, message: describe(&error) }),
        }
        Err(errors)
    }
}

fn describe(error: &BuildError) -> String {
    match error {
        BuildError::Hash(ids) => format!("`{}` and `{}` have the same `sha256`; remove one entry", ids[0], ids[1]),
        BuildError::Plan(id) => {
            format!("entries with the id `{id}` have different plans; give each plan an id of its own")
        }
    }
}

impl KeyFileError {
    fn add(&mut self, error: EntryError) {
        if self.errors.len() < MAX_LISTED { self.errors.push(error) } else { self.more += 1 }
    }
}

impl Reader<'_> {
    /// Reads the entries of the list. Errors of entries are added to `errors`.
    fn list(&mut self, builder: &mut Builder, errors: &mut KeyFileError) -> Result<(), EntryError> {
        const EXAMPLE: &str = "`- {id: alice, sha256: …}` for each key, or `[]` for none";
        match self.next()? {
            Event::SequenceStart(..) => {}
            _ => return Err(self.error(format!("expected a list of entries; write {EXAMPLE}"))),
        }
        loop {
            match self.next()? {
                Event::MappingStart(..) => {}
                Event::SequenceEnd => break,
                _ => return Err(self.error(format!("expected an entry; write {EXAMPLE}"))),
            }
            let line = self.line;
            let entry = self.entry()?;
            let added = entry.and_then(|entry| {
                let hash = entry.sha256;
                let key = entry.key()?;
                let hash = hash.ok_or_else(|| {
                    format!("the entry `{}` has no `sha256`; `tollgate keys hash` prints that of a key", key.id)
                })?;
                if builder.add(hash, &key) { Ok(()) } else { Err("the file has too many keys".to_owned()) }
            });
            if let Err(message) = added {
                errors.add(EntryError { line, message });
            }
        }
        match self.next()? {
            Event::StreamEnd => Ok(()),
            _ => Err(self.error("expected one list in the file")),
        }
    }
}
