//! Secrets of a configuration, which excerpts and messages mask: found in the tree of a file, by keys and values.

mod misspelled;
mod names;
mod texts;
mod urls;
mod values;
mod walk;

use std::collections::BTreeMap;
use std::ops::Range;

pub(super) use self::misspelled::UnknownNames;
pub use self::names::{is_secret_key, is_secret_name};
pub use self::texts::{NAMED_VALUES, without_scheme};
pub use self::values::SecretValues;
pub(super) use self::walk::Secret;
use self::walk::Walk;
use crate::diagnostics::lines::FileLines;
use crate::diagnostics::text::{Format, SourceFile};
use crate::java_properties;
use crate::yaml::{self, Node};

/// Text in place of a secret in a message.
const MASK: &str = "****";
/// Secrets on each side of a place that messages about it are searched for, besides [`SecretValues`].
const MAX_OF_LINE: usize = 32;
/// Shortest secret that is replaced in messages; shorter ones are too likely to be a part of other words.
const SHORTEST: usize = 3;

/// Returns true for a word, in lower case, that messages use themselves. A secret that is one is masked at its place only.
pub(super) type OwnWords = Option<fn(&str) -> bool>;

/// Secrets of one file.
#[derive(Clone, Debug, Default)]
pub(super) struct Secrets {
    /// In the order of the file.
    all: Vec<Secret>,
    /// Values that placeholders and the environment put into the file, which excerpts do not show.
    resolved: Vec<Secret>,
    /// Keys and values that are written in other characters than they say.
    rewritten: Vec<Secret>,
    /// Bytes with secrets, which do not overlap, in the order of the file.
    masked: Vec<Range<usize>>,
    /// False if the file is one value, or JSON, of which no lines are shown.
    has_lines: bool,
}

// === impl Secrets ===

impl Secrets {
    /// Finds the secrets of a file. Values of `unknown` names are secrets as those of the names that were meant.
    pub(super) fn of(file: &SourceFile, unknown: &UnknownNames) -> Self {
        let text = file.text.as_str();
        let mut walk = Walk::new(text, unknown);
        match &file.format {
            Format::Yaml | Format::Json => {
                let parsed = yaml::parse(text, 0);
                if parsed.is_broken {
                    return Self::of_unread(text);
                }
                parsed.documents.iter().for_each(|document| walk.document(document));
                walk.unused(&parsed.unused);
            }
            Format::Properties => match java_properties::read(text, 0) {
                Ok(parsed) => {
                    parsed.documents.iter().for_each(|document| walk.document(document));
                    walk.unused(&parsed.unused);
                }
                Err(_) => return Self::of_unread(text),
            },
            Format::Value(key) => walk.property(key, text.to_owned()),
            Format::Argument => walk.property(file.name.trim_start_matches('-'), text.to_owned()),
        }
        Self {
            has_lines: matches!(file.format, Format::Yaml | Format::Properties),
            rewritten: walk.rewritten,
            ..Self::sorted(walk.found)
        }
    }

    /// Returns the whole of a text that cannot be read, if it mentions a secret: any part of it may be one. Messages about
    /// such a text quote no part of it.
    fn of_unread(text: &str) -> Self {
        let whole = Secret { file: 0, bytes: 0..text.len(), text: String::new() };
        Self::sorted(Vec::from_iter(texts::mentions_secret(text).then_some(whole)))
    }

    fn sorted(mut all: Vec<Secret>) -> Self {
        all.sort_by_key(|secret| (secret.bytes.start, secret.bytes.end));
        let mut masked: Vec<Range<usize>> = Vec::new();
        for Secret { bytes, .. } in &all {
            match masked.last_mut() {
                Some(last) if bytes.start <= last.end => last.end = last.end.max(bytes.end),
                _ => masked.push(bytes.clone()),
            }
        }
        Self { all, masked, has_lines: true, ..Self::default() }
    }

    /// Returns these with those of `resolved`, which are in the order of the file.
    pub(super) fn with(self, resolved: Vec<Secret>) -> Self {
        Self { resolved, ..self }
    }

    /// Adds the keys and values that say one of the `values` in other characters: a line does not show it as it is.
    pub(super) fn with_rewritten(self, values: &SecretValues) -> Self {
        let Self { mut all, resolved, rewritten, has_lines, .. } = self;
        all.extend(rewritten.into_iter().filter(|other| !values.places(&other.text).is_empty()));
        Self { resolved, has_lines, ..Self::sorted(all) }
    }

    /// Returns the values of the secrets.
    pub(super) fn texts(&self) -> impl Iterator<Item = &str> {
        self.all.iter().chain(&self.resolved).map(|secret| secret.text.as_str())
    }

    /// Returns the line at `at` with each character of a secret, and of one of the `values`, replaced by `*`. Columns stay the
    /// same.
    pub(super) fn mask_line(&self, lines: &FileLines<'_>, at: usize, values: &SecretValues) -> String {
        let (line, bytes) = (lines.line(at), lines.bytes(at));
        let mut ranges = self.masked_in(&bytes).to_vec();
        ranges.extend(texts::comment_with_secret(line).map(|start| bytes.start + start + 1..bytes.end));
        ranges.extend(values.places(line).into_iter().map(|place| bytes.start + place.start..bytes.start + place.end));
        ranges.sort_by_key(|range| range.start);
        let mut ranges = ranges.into_iter().peekable();
        let indentation = line.len() - line.trim_start().len();
        let mut masked_until = 0;
        let mut is_secret = |at: usize| {
            while let Some(range) = ranges.next_if(|range| range.start <= bytes.start + at) {
                masked_until = masked_until.max(range.end);
            }
            at >= indentation && bytes.start + at < masked_until
        };
        line.char_indices().map(|(at, c)| if is_secret(at) { '*' } else { c }).collect()
    }

    /// Returns `message` without the secrets of the line with the bytes `line`, next to the position `near`, without
    /// `values`, and without passwords of URLs.
    pub(super) fn mask_message(
        &self,
        message: &str,
        line: Option<(Range<usize>, usize)>,
        values: &SecretValues,
    ) -> String {
        let secrets: Vec<&str> = match line {
            Some((line, near)) => self.texts_in(&line, near),
            None if self.has_lines => Vec::new(),
            None => self.texts().collect(),
        };
        // Messages quote values in backquotes; a quoted value may be a part of the secret.
        let parts: Vec<&str> = message.split('`').collect();
        let is_secret = |part: &str| {
            // A part of a URL.
            let before_host = part.rsplit_once('@').map_or(part, |(user, _)| user);
            let is_in = |secret: &&str| secret.contains(part) || secret.contains(before_host);
            before_host.len() >= SHORTEST && secrets.iter().any(is_in)
        };
        let (words, others): (Vec<&str>, Vec<&str>) =
            secrets.iter().filter(|secret| secret.len() >= SHORTEST).partition(|secret| values.is_word(secret));
        let replaced = |text: &str, secrets: &[&str]| {
            secrets.iter().fold(text.to_owned(), |masked, secret| masked.replace(secret, MASK))
        };
        let shown = parts.iter().enumerate().map(|(at, part)| match at % 2 == 1 {
            true if is_secret(part) => MASK.to_owned(),
            true => words.iter().fold((*part).to_owned(), |masked, word| without_word(&masked, word)),
            // The words of the message itself.
            false => (*part).to_owned(),
        });
        let masked = replaced(&shown.collect::<Vec<_>>().join("`"), &others);
        values.mask(&masked).split('`').map(without_passwords).collect::<Vec<_>>().join("`")
    }

    /// Returns the masked bytes that overlap those of a line.
    fn masked_in(&self, line: &Range<usize>) -> &[Range<usize>] {
        let first = self.masked.partition_point(|range| range.end <= line.start);
        let rest = self.masked.get(first..).unwrap_or_default();
        &rest[..rest.partition_point(|range| range.start < line.end)]
    }

    /// Returns the values of the secrets of a line, those around the position `near` first: a line may be the whole file.
    fn texts_in(&self, line: &Range<usize>, near: usize) -> Vec<&str> {
        let first = self.masked_in(line).first().map_or(line.end, |first| first.start);
        let of_file = around(starting_in(&self.all, first..line.end), near);
        let overlapping = of_file.iter().filter(|secret| secret.bytes.end > line.start);
        let secrets = overlapping.chain(around(starting_in(&self.resolved, line.clone()), near));
        secrets.map(|secret| secret.text.as_str()).collect()
    }
}

/// Returns those of `secrets` that are next to the position `near`.
fn around(secrets: &[Secret], near: usize) -> &[Secret] {
    let at = secrets.partition_point(|secret| secret.bytes.start < near);
    secrets.get(at.saturating_sub(MAX_OF_LINE)..secrets.len().min(at + MAX_OF_LINE)).unwrap_or_default()
}

/// Returns those of `secrets`, which are in the order of the file, that start in `bytes`.
fn starting_in(secrets: &[Secret], bytes: Range<usize>) -> &[Secret] {
    let position = |at| secrets.partition_point(|secret| secret.bytes.start < at);
    secrets.get(position(bytes.start)..position(bytes.end)).unwrap_or_default()
}

/// Returns the secrets of a tree whose placeholders are resolved, and that has the values of the environment, and those of the
/// properties in `values`, by name.
pub(super) fn of_resolved(root: &Node, values: BTreeMap<String, String>) -> Vec<Secret> {
    let unknown = UnknownNames::default();
    let mut walk = Walk::new("", &unknown);
    walk.document(root);
    values.into_iter().for_each(|(name, value)| walk.property(&name, value));
    walk.found
}

/// Masks `word`, a secret that is also a word of messages, unless it is a part of a longer one: `keys` in `api-keys`.
fn without_word(text: &str, word: &str) -> String {
    let is_of_word = |c: char| c.is_alphanumeric() || "-_".contains(c);
    let (mut masked, mut end) = (String::new(), 0);
    for (at, _) in text.match_indices(word) {
        let behind = &text[at + word.len()..];
        if !text[..at].ends_with(is_of_word) && !behind.starts_with(is_of_word) {
            masked.push_str(&text[end..at]);
            masked.push_str(MASK);
            end = at + word.len();
        }
    }
    masked + &text[end..]
}

/// Returns a part of a message without the passwords of its URLs.
fn without_passwords(part: &str) -> String {
    let (mut masked, mut passwords) = (part.to_owned(), Vec::new());
    urls::find_urls(part, &mut passwords);
    passwords.into_iter().rev().for_each(|range| masked.replace_range(range, MASK));
    masked
}

#[cfg(test)]
mod tests;
