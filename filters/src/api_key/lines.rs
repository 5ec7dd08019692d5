//! Files with one entry per line, as `tollgate keys new` prints them.
//!
//! A file of a million keys is read in a quarter of the time that the YAML parser takes. The reader accepts a part of YAML whose
//! meaning is plain. It reports no errors: the parser reads every other file.

use std::borrow::Cow;

use super::key_entry::{Entry, Value};
use super::table::Builder;

/// Reads `text` if each line is an entry such as `- {id: alice, sha256: …}`, a comment or empty, and no entry has an error.
pub(super) fn read(text: &str) -> Option<Builder> {
    let mut builder = Builder::default();
    let mut entries = text.lines().filter(|line| !line.is_empty() && !is_comment(line)).peekable();
    // A file without an entry may be an error.
    entries.peek()?;
    for line in entries {
        let entry = entry(line.strip_prefix("- {")?.strip_suffix('}')?)?;
        let hash = entry.sha256?;
        if !builder.add(hash, &entry.key().ok()?) {
            return None;
        }
    }
    Some(builder)
}

/// Returns true for a comment without control characters.
fn is_comment(line: &str) -> bool {
    line.starts_with('#') && line.chars().all(|c| c.is_alphanumeric() || c.is_ascii_punctuation() || c == ' ')
}

/// Reads the fields between braces.
fn entry(mut fields: &str) -> Option<Entry<'_>> {
    let (mut entry, mut names) = (Entry::default(), Vec::with_capacity(6));
    loop {
        let (name, rest) = fields.split_once(": ")?;
        if !is_plain(name) || names.contains(&name) {
            return None;
        }
        names.push(name);
        let (value, rest) = value(rest)?;
        entry.set(name, value).ok()?;
        match rest {
            "" => return Some(entry),
            rest => fields = rest.strip_prefix(", ")?,
        }
    }
}

/// Reads a value. Returns the text behind it as well.
fn value(text: &str) -> Option<(Value<'_>, &str)> {
    if let Some((items, rest)) = text.strip_prefix('[').and_then(|text| text.split_once(']')) {
        let items = items.split(", ").map(|item| is_plain(item).then_some(Cow::Borrowed(item)));
        return Some((Value::List(items.collect::<Option<_>>()?), rest));
    }
    let (text, rest) = text.split_at(text.find(',').unwrap_or(text.len()));
    let value = if text == "null" { Value::Null } else { Value::Text(text.into()) };
    is_plain(text).then_some((value, rest))
}

/// Returns true for a text that is one plain scalar in YAML: it has no sign with a meaning, and `:` stands between letters or digits.
fn is_plain(text: &str) -> bool {
    let bytes = text.as_bytes();
    let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.+/:".contains(&byte);
    let is_outer = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    is_outer(bytes.first()) && is_outer(bytes.last()) && bytes.iter().all(|byte| is_inner(*byte))
}
