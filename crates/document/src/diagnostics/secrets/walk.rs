//! The walk through the tree of a file that finds its secrets.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use super::misspelled::UnknownNames;
use super::names::{self, ValueKind, is_secret_name, is_value_key};
use super::{texts, urls};
use crate::yaml::{Bytes, Node, NodeKind, Span, Unused};

/// A secret, or a part of a text that may be one.
#[derive(Clone, Debug)]
pub(in crate::diagnostics) struct Secret {
    pub(in crate::diagnostics) file: usize,
    pub(in crate::diagnostics) bytes: Range<usize>,
    /// The value, without escapes.
    pub(super) text: String,
}

impl Secret {
    pub(in crate::diagnostics) fn new(at: Span, text: &str) -> Self {
        Self { file: at.file(), bytes: at.bytes().range(), text: text.to_owned() }
    }
}

/// Finds the secrets of a file.
pub(super) struct Walk<'w> {
    /// Text of the file; an empty one if the nodes are not those of one file.
    text: &'w str,
    /// File of the present node.
    file: usize,
    unknown: &'w UnknownNames,
    /// Kinds of the values of keys in ordinary maps: a large file has few names of keys.
    ordinary: HashMap<String, ValueKind>,
    pub(super) found: Vec<Secret>,
    /// Keys and values that the file has in other characters, with escapes or in several lines, and that are no secrets.
    pub(super) rewritten: Vec<Secret>,
}

// === impl Walk ===

impl<'w> Walk<'w> {
    pub(super) fn new(text: &'w str, unknown: &'w UnknownNames) -> Self {
        Self { text, file: 0, unknown, ordinary: HashMap::new(), found: Vec::new(), rewritten: Vec::new() }
    }

    /// Finds the secrets of a document.
    pub(super) fn document(&mut self, node: &Node) {
        self.value(node, ValueKind::Document);
    }

    /// Finds the secrets of the `value` of the property `key`: a file, or the value of a placeholder.
    pub(super) fn property(&mut self, key: &str, value: String) {
        let span = Span::new(0, Bytes::new(0..self.text.len())).keyed(Bytes::NONE);
        let value = Node { span, kind: NodeKind::Scalar(value) };
        self.entries(&[(key.to_owned(), value)], ValueKind::Document);
    }

    /// Finds the secrets of entries that others replace.
    pub(super) fn unused(&mut self, unused: &[Unused]) {
        for Unused { above, entry } in unused {
            self.entries(std::slice::from_ref(entry), ValueKind::Other.below(above));
            // The name beside it is not known.
            let (key, value) = entry;
            if is_value_key(key.rsplit('.').next().unwrap_or(key)) {
                self.value(value, ValueKind::Secret);
            }
        }
    }

    fn entries(&mut self, entries: &[(String, Node)], kind: ValueKind) {
        let above = |key: &'_ str| key.rfind('.').map_or(0, |dot| dot + 1);
        let is_name = |(key, value): &&(String, Node)| {
            let is_value = value.scalar().is_some_and(is_secret_name) && !is_value_key(key);
            // Its separator is not that of YAML.
            let is_in_key = key.contains([':', ' ']) && is_secret_name(key);
            (is_value || is_in_key) && &key[above(key)..] != "key-resolver"
        };
        let names = entries.iter().filter(is_name);
        let with_names: HashSet<&str> = names.map(|(key, _)| &key[..above(key)]).collect();
        for (key, value) in entries {
            self.file = value.span.file();
            self.key(value.span.key().bytes(), key, kind, with_names.contains(""));
            let last = &key[above(key)..];
            let is_of_name = || is_value_key(last) || self.unknown.has_value_key(last);
            let has_name = || with_names.contains(&key[..above(key)]) && is_of_name();
            let is_secret = self.unknown.has_key(key) || has_name();
            let kind = if is_secret { ValueKind::Secret } else { self.below(kind, key) };
            self.value(value, kind);
            // A filter as the key of its arguments.
            if let Some(arguments) = value.scalar().filter(|_| texts::has_named_value(key, self.unknown)) {
                self.parts(self.unquoted(value.span.bytes()), arguments, texts::find_arguments);
            }
        }
    }

    /// Returns the kind of the value of `key` in a map of this kind.
    fn below(&mut self, kind: ValueKind, key: &str) -> ValueKind {
        if kind != ValueKind::Other {
            return kind.below(key);
        }
        if let Some(below) = self.ordinary.get(key) {
            return *below;
        }
        let below = kind.below(key);
        self.ordinary.insert(key.to_owned(), below);
        below
    }

    /// Finds the secrets of a key: parts of its name, and a value whose separator is not that of YAML, as in `password x`.
    fn key(&mut self, bytes: Bytes, key: &str, kind: ValueKind, is_beside_name: bool) {
        let bytes = self.unquoted(bytes);
        self.note_rewritten(&bytes, key);
        let is_of_name = |c: char| c.is_alphanumeric() || "-_.[]".contains(c);
        let start = key.len() - key.trim_start_matches(|c| !is_of_name(c)).len();
        let name = key[start..].split(|c| !is_of_name(c)).next().unwrap_or_default();
        let end = start + name.len();
        let has_secret = |name| kind.below(name).has_secrets() || is_beside_name && is_value_key(name);
        if let Some(at) = kind.secret_part(key) {
            self.parts(bytes, key, |key, found| found.push(at..key.len()));
        } else if end < key.len() {
            if has_secret(name) {
                self.parts(bytes.clone(), key, |key, found| found.push(texts::value_start(key, end)..key.len()));
            }
            self.parts(bytes.clone(), key, texts::find_after_key);
            self.text_parts(bytes, key);
        }
    }

    fn value(&mut self, node: &Node, kind: ValueKind) {
        self.file = node.span.file();
        match &node.kind {
            NodeKind::Null => {}
            NodeKind::Map(entries) => {
                let is_credential = || entries.iter().any(|(key, _)| names::is_of_credential(key));
                // The keys of another map may be the secrets.
                let is_other = kind == ValueKind::Credential && !is_credential();
                self.entries(entries, if is_other { ValueKind::Secret } else { kind });
            }
            NodeKind::Seq(items) => {
                let kind = if kind == ValueKind::Secrets { ValueKind::Credential } else { kind };
                items.iter().for_each(|item| self.value(item, kind));
            }
            NodeKind::Scalar(text) => self.scalar(node, text, kind),
        }
    }

    fn scalar(&mut self, node: &Node, text: &str, kind: ValueKind) {
        use ValueKind::{Credential, Fields, Key, KeyList, Secret, Secrets, Table, Word};
        let bytes = self.unquoted(node.span.bytes());
        self.note_rewritten(&bytes, text);
        match kind {
            Key if texts::is_location(text) => {}
            Secret | Key | Word | Secrets | Credential | Table if !texts::is_variable(text) => {
                self.add(bytes, text.to_owned())
            }
            // A text without a separator is the name of a field.
            Fields if text.contains([':', '=']) => self.add(bytes, text.to_owned()),
            KeyList => self.parts(bytes, text, texts::find_key_ids),
            _ if texts::without_scheme(text).is_some() || texts::has_credentials(text) => {
                self.add(bytes, text.to_owned())
            }
            _ => {
                self.parts(bytes.clone(), text, texts::find_after_key);
                self.text_parts(bytes, text);
            }
        }
    }

    /// Adds the secrets that any text may have.
    fn text_parts(&mut self, bytes: Range<usize>, text: &str) {
        let unknown = self.unknown;
        self.parts(bytes.clone(), text, |text, found| texts::find_shortcuts(text, unknown, found));
        self.parts(bytes.clone(), text, urls::find_servers);
        self.parts(bytes.clone(), text, urls::find_urls);
        self.parts(bytes.clone(), text, urls::find_parameters);
        self.parts(bytes, text, urls::find_urls_without_host);
    }

    /// Adds the secrets that `find` finds in `text`, which the file has at `bytes`. If it is written otherwise there, with
    /// escapes or in several lines, a secret makes the whole of it one.
    fn parts(&mut self, bytes: Range<usize>, text: &str, find: impl Fn(&str, &mut Vec<Range<usize>>)) {
        let mut ranges = Vec::new();
        find(text, &mut ranges);
        let is_same = self.text.get(bytes.clone()) == Some(text);
        for range in ranges {
            let part = text.get(range.clone()).unwrap_or_default().to_owned();
            let at = if is_same { bytes.start + range.start..bytes.start + range.end } else { bytes.clone() };
            self.add(at, part);
        }
    }

    fn note_rewritten(&mut self, bytes: &Range<usize>, text: &str) {
        if self.text.get(bytes.clone()).is_some_and(|written| written != text) {
            self.rewritten.push(Secret { file: self.file, bytes: bytes.clone(), text: text.to_owned() });
        }
    }

    fn add(&mut self, bytes: Range<usize>, text: String) {
        // A value of the environment has no bytes of the file.
        if !text.is_empty() {
            self.found.push(Secret { file: self.file, bytes, text });
        }
    }

    /// Returns the bytes of a key or value without the quotes around it, and of a block scalar without its head.
    fn unquoted(&self, bytes: Bytes) -> Range<usize> {
        let Range { start, end } = bytes.range();
        let Some(text) = self.text.get(start..end) else { return start..end };
        let trimmed = start + text.trim_end().len();
        match text.as_bytes() {
            [b'"', .., b'"'] | [b'\'', .., b'\''] => start + 1..end - 1,
            [b'|' | b'>', ..] => text.find(['\n', '\r']).map_or(start..end, |head| start + head + 1..trimmed),
            _ => start..trimmed,
        }
    }
}
