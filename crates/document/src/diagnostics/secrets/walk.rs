//! The walk through the tree of a file that finds its secrets.

use std::collections::HashSet;
use std::ops::Range;

use super::names::{ValueKind, is_secret_name, is_value_key, kind};
use super::texts;
use super::unknown::UnknownNames;
use crate::yaml::{Bytes, Node, NodeKind, Unused};

/// A secret, or a part of a text that may be one.
#[derive(Clone, Debug)]
pub(super) struct Secret {
    pub(super) bytes: Range<usize>,
    /// The value, without escapes.
    pub(super) text: String,
}

/// Finds the secrets of a file.
pub(super) struct Walk<'w> {
    text: &'w str,
    unknown: &'w UnknownNames,
    pub(super) found: Vec<Secret>,
}

// === impl Walk ===

impl<'w> Walk<'w> {
    pub(super) fn new(text: &'w str, unknown: &'w UnknownNames) -> Self {
        Self { text, unknown, found: Vec::new() }
    }

    /// Finds the secrets of a document. Its section `headers` has settings, not fields.
    pub(super) fn document(&mut self, node: &Node) {
        match &node.kind {
            NodeKind::Map(entries) => self.entries(entries, ValueKind::Other, true),
            _ => self.value(node, ValueKind::Other),
        }
    }

    /// Finds the secrets of entries that others replace.
    pub(super) fn unused(&mut self, unused: &[Unused]) {
        for Unused { above, entry } in unused {
            self.entries(std::slice::from_ref(entry), kind(above), false);
        }
    }

    /// Finds the secrets of a text that was not read, since there is a syntax error at `error`: those on its line.
    pub(super) fn unread(&mut self, error: Range<usize>) {
        let before = self.text.get(..error.start).unwrap_or(self.text);
        let start = before.rfind('\n').map_or(0, |end| end + 1);
        let line = self.text[start..].lines().next().unwrap_or_default();
        self.parts(start..start + line.len(), texts::find_after_keys);
        self.text_parts(start..start + line.len());
    }

    fn entries(&mut self, entries: &[(String, Node)], kind_of_map: ValueKind, is_root: bool) {
        let above = |key: &'_ str| key.rfind('.').map_or(0, |dot| dot + 1);
        let names = entries
            .iter()
            .filter(|(key, value)| &key[above(key)..] != "key-resolver" && value.scalar().is_some_and(is_secret_name));
        let with_names: HashSet<&str> = names.map(|(key, _)| &key[..above(key)]).collect();
        for (key, value) in entries {
            self.key(value.span.key().bytes(), kind_of_map);
            let last = &key[above(key)..];
            let is_of_name = is_value_key(last) || self.unknown.has_value_key(last);
            let is_secret = matches!(kind_of_map, ValueKind::Fields | ValueKind::KeyList | ValueKind::Secret)
                // The text behind the entries before a syntax error.
                || kind_of_map == ValueKind::Table && key.is_empty()
                || self.unknown.has_key(key)
                || is_of_name && with_names.contains(&key[..above(key)]);
            self.value(
                value,
                match kind(key) {
                    _ if is_secret => ValueKind::Secret,
                    ValueKind::Fields if is_root => ValueKind::Other,
                    kind => kind,
                },
            );
        }
    }

    fn key(&mut self, key: Bytes, kind_of_map: ValueKind) {
        let bytes = self.unquoted(key);
        let text = self.text.get(bytes.clone()).unwrap_or_default();
        // A map in place of a key id or a secret is an error whose message shows it.
        if matches!(kind_of_map, ValueKind::Table | ValueKind::KeyList | ValueKind::Secret) {
            self.add(bytes, text.to_owned());
        } else if let Some(at) = text.find(texts::IN_TABLE) {
            self.add(
                bytes.start + at + texts::IN_TABLE.len()..bytes.end,
                text[at + texts::IN_TABLE.len()..].to_owned(),
            );
        } else if text.contains([':', '=']) {
            self.parts(bytes.clone(), texts::find_unspaced);
            self.text_parts(bytes);
        }
    }

    fn value(&mut self, node: &Node, kind: ValueKind) {
        match &node.kind {
            NodeKind::Null => {}
            NodeKind::Map(entries) => self.entries(entries, kind, false),
            NodeKind::Seq(items) => items.iter().for_each(|item| self.value(item, kind)),
            NodeKind::Scalar(text) => self.scalar(node, text, kind),
        }
    }

    fn scalar(&mut self, node: &Node, text: &str, kind: ValueKind) {
        let bytes = self.unquoted(node.span.bytes());
        match kind {
            ValueKind::Secret | ValueKind::Secrets if !texts::is_variable(text) => self.add(bytes, text.to_owned()),
            ValueKind::KeyList => self.parts(bytes, texts::find_key_ids),
            _ if texts::has_scheme(text) => self.add(bytes, text.to_owned()),
            _ => {
                if kind == ValueKind::Servers {
                    self.parts(bytes.clone(), texts::find_servers);
                }
                self.text_parts(bytes);
            }
        }
    }

    /// Adds the secrets that any text may have.
    fn text_parts(&mut self, bytes: Range<usize>) {
        let unknown = self.unknown;
        self.parts(bytes.clone(), |text, found| texts::find_shortcuts(text, unknown, found));
        self.parts(bytes, texts::find_urls);
    }

    /// Adds the secrets that `find` finds in a part of the file.
    fn parts(&mut self, bytes: Range<usize>, find: impl Fn(&str, &mut Vec<Range<usize>>)) {
        let text = self.text.get(bytes.clone()).unwrap_or_default();
        let mut ranges = Vec::new();
        find(text, &mut ranges);
        for range in ranges {
            self.add(bytes.start + range.start..bytes.start + range.end, text[range].to_owned());
        }
    }

    fn add(&mut self, bytes: Range<usize>, text: String) {
        if !bytes.is_empty() && !text.is_empty() {
            self.found.push(Secret { bytes, text });
        }
    }

    /// Returns the bytes of a key or value without the quotes around it, and of a block scalar without its head.
    fn unquoted(&self, bytes: Bytes) -> Range<usize> {
        let Range { start, end } = bytes.range();
        let text = self.text.get(start..end).unwrap_or_default();
        let trimmed = start + text.trim_end().len();
        match text.as_bytes() {
            [b'"', .., b'"'] | [b'\'', .., b'\''] => start + 1..end - 1,
            [b'|' | b'>', ..] => text.find('\n').map_or(start..end, |head| start + head + 1..trimmed),
            _ => start..trimmed,
        }
    }
}
