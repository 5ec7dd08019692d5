//! `config/reference.yaml`: every key with its default and documentation.

use std::fmt::Write as _;

use crate::generated::keys::{Key, Shape};

/// First line of the generated part.
pub(super) const BEGIN: &str = "# ── made from the code by tests/regenerate ──";
/// Last line of the generated part; resolvers, filters and routes follow, written by hand.
pub(super) const END: &str = "# ── end of the generated part ──";

/// Keys that are shown below [`END`].
const BY_HAND: [&str; 3] = ["key-resolvers", "default-filters", "routes"];

/// Columns of the file.
const WIDTH: usize = 120;

/// Returns every key but those [`BY_HAND`]. Keys without a default are commented out.
pub(super) fn yaml(keys: &[Key]) -> String {
    let mut out = String::new();
    for key in keys.iter().filter(|key| !BY_HAND.contains(&key.name.as_str())) {
        out.push('\n');
        write(key, 0, false, &mut out);
    }
    out.push('\n');
    out
}

/// Writes `key` at a depth; `off`: its section is commented out.
fn write(key: &Key, depth: usize, off: bool, out: &mut String) {
    let indent = "  ".repeat(depth);
    for line in wrapped(&key.description, WIDTH - indent.len() - 4) {
        // In a commented-out section, a second `#` marks comments.
        writeln!(out, "{}{indent}# {line}", if off { "# " } else { "" }).unwrap();
    }
    let inner = match &key.shape {
        Shape::Value => {
            let literal = key.default.literal.as_deref();
            let sign = if off || literal.is_none() { "# " } else { "" };
            let value = literal.map_or_else(|| key.example.clone(), quoted);
            let (before, after) = if off { (sign, "") } else { ("", sign) };
            writeln!(out, "{before}{indent}{after}{}: {value}", key.name).unwrap();
            return;
        }
        Shape::Section(inner) | Shape::Named(inner) | Shape::List(inner) => inner,
    };
    let is_plain = matches!(key.shape, Shape::Section(_)) && !key.is_optional;
    // A section of comments alone would be null.
    let off = off || !is_plain || !inner.iter().any(Key::has_value);
    let sign = if off { "# " } else { "" };
    writeln!(out, "{sign}{indent}{}:", key.name).unwrap();
    let between = match key.shape {
        Shape::Named(_) => Some("NAME:"),
        Shape::List(_) => Some("-"),
        Shape::Section(_) | Shape::Value => None,
    };
    if let Some(between) = between {
        writeln!(out, "{sign}{indent}  {between}").unwrap();
    }
    for key in inner {
        write(key, depth + 1 + usize::from(between.is_some()), off, out);
    }
}

impl Key {
    /// Returns true if the key, or one below it, is shown with a default.
    fn has_value(&self) -> bool {
        match &self.shape {
            Shape::Value => self.default.literal.is_some(),
            Shape::Section(inner) => !self.is_optional && inner.iter().any(Key::has_value),
            Shape::Named(_) | Shape::List(_) => false,
        }
    }
}

/// Returns `text` as a YAML scalar, quoted if needed.
fn quoted(text: &str) -> String {
    let is_plain = text.chars().all(|c| c.is_alphanumeric() || "-_./ ".contains(c));
    if is_plain && !text.is_empty() {
        text.to_owned()
    } else {
        format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
    }
}

/// Wraps `text` into lines of at most `width` columns.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let last = lines.last_mut().unwrap();
        if last.is_empty() {
            last.push_str(word);
        } else if last.chars().count() + 1 + word.chars().count() <= width {
            last.push(' ');
            last.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}
