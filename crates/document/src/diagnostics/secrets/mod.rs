//! Secrets of a configuration, which excerpts and messages mask: found in the tree of a file, by keys and values.

mod misspelled;
mod names;
mod texts;
mod unknown;
mod walk;

use std::collections::HashSet;
use std::ops::Range;

pub use self::names::is_secret_name;
pub(super) use self::unknown::UnknownNames;
use self::walk::{Secret, Walk};
use crate::diagnostics::lines::FileLines;
use crate::diagnostics::text::{Format, SourceFile};
use crate::java_properties;
use crate::yaml;

/// Text in place of a secret in a message.
const MASK: &str = "****";
/// Shortest secret that is replaced in messages; shorter ones are too likely to be a part of other words.
const SHORTEST: usize = 3;
/// Shortest secret that is replaced in messages about other lines, where they quote it.
const SHORTEST_ELSEWHERE: usize = 8;

/// Secrets of one file.
#[derive(Clone, Debug, Default)]
pub(super) struct Secrets {
    /// In the order of the file.
    all: Vec<Secret>,
    /// Bytes with secrets, which do not overlap, in the order of the file.
    masked: Vec<Range<usize>>,
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
                parsed.documents.iter().chain(&parsed.broken).for_each(|document| walk.document(document));
                walk.unused(&parsed.unused);
                if let Some(error) = parsed.problems.last().filter(|_| parsed.broken.is_some()) {
                    walk.unread(error.at.bytes().range());
                }
            }
            Format::Properties => {
                let documents = java_properties::nodes(text, 0).unwrap_or_default();
                documents.iter().for_each(|document| walk.document(document));
            }
            Format::Value(_) | Format::Argument => {}
        }
        Self::sorted(walk.found)
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
        Self { all, masked }
    }

    /// Returns the values that are masked in messages about other lines.
    pub(super) fn elsewhere(&self) -> impl Iterator<Item = &str> {
        self.all.iter().map(|secret| secret.text.as_str()).filter(|text| text.len() >= SHORTEST_ELSEWHERE)
    }

    /// Returns the line at `at` with each character of a secret replaced by `*`. Columns stay the same.
    pub(super) fn mask_line(&self, lines: &FileLines<'_>, at: usize) -> String {
        let (line, bytes) = (lines.line(at), lines.bytes(at));
        let mut ranges = self.masked_in(&bytes).to_vec();
        let mut in_comment = Vec::new();
        texts::find_in_comment(line, &mut in_comment);
        ranges.extend(in_comment.into_iter().map(|range| range.start + bytes.start..range.end + bytes.start));
        ranges.sort_by_key(|range| range.start);
        let mut ranges = ranges.into_iter().peekable();
        let indentation = line.len() - line.trim_start().len();
        let mut is_secret = |at: usize| {
            while ranges.next_if(|range| range.end <= bytes.start + at).is_some() {}
            at >= indentation && ranges.peek().is_some_and(|range| range.contains(&(bytes.start + at)))
        };
        line.char_indices().map(|(at, c)| if is_secret(at) { '*' } else { c }).collect()
    }

    /// Returns `message` without the secrets of the line at `at`, without values of `elsewhere` that it quotes, and without
    /// passwords of URLs.
    pub(super) fn mask_message(
        &self,
        message: &str,
        lines: &FileLines<'_>,
        at: Option<usize>,
        elsewhere: &HashSet<String>,
    ) -> String {
        let secrets: Vec<&str> = at.map(|at| self.texts_in(&lines.bytes(at))).unwrap_or_default();
        // Messages quote values in backquotes; a quoted value may be a part of the secret.
        let parts: Vec<&str> = message.split('`').collect();
        let is_secret = |part: &str| {
            elsewhere.contains(part) || part.len() >= SHORTEST && secrets.iter().any(|secret| secret.contains(part))
        };
        let shown: Vec<&str> = parts
            .iter()
            .enumerate()
            .map(|(at, part)| if at % 2 == 1 && is_secret(part) { MASK } else { part })
            .collect();
        let mut masked = shown.join("`");
        for secret in secrets.iter().filter(|secret| secret.len() >= SHORTEST) {
            masked = masked.replace(secret, MASK);
        }
        let mut passwords = Vec::new();
        texts::find_urls(&masked, &mut passwords);
        for range in passwords.into_iter().rev() {
            masked.replace_range(range, MASK);
        }
        masked
    }

    /// Returns the masked bytes that overlap those of a line.
    fn masked_in(&self, line: &Range<usize>) -> &[Range<usize>] {
        let first = self.masked.partition_point(|range| range.end <= line.start);
        let rest = self.masked.get(first..).unwrap_or_default();
        &rest[..rest.partition_point(|range| range.start < line.end)]
    }

    /// Returns the values of the secrets of a line.
    fn texts_in(&self, line: &Range<usize>) -> Vec<&str> {
        let Some(first) = self.masked_in(line).first() else { return Vec::new() };
        let from = self.all.partition_point(|secret| secret.bytes.start < first.start);
        let until_line_end = self.all[from..].iter().take_while(|secret| secret.bytes.start < line.end);
        until_line_end.filter(|secret| secret.bytes.end > line.start).map(|secret| secret.text.as_str()).collect()
    }
}

#[cfg(test)]
mod tests;
