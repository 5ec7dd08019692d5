//! `config/reference.yaml`: every key with its default and what its doc comment says.

use std::fmt::Write as _;

use crate::generated::keys::{Key, Shape};

/// Begins what is made; the file's own words stand before it.
pub(super) const BEGIN: &str = "# ── made from the code by tests/regenerate ──";
/// Ends it; resolvers, filters and routes stand behind it, written by hand.
pub(super) const END: &str = "# ── end of what is made ──";

/// Keys that are shown below [`END`].
const BY_HAND: [&str; 3] = ["key-resolvers", "default-filters", "routes"];

/// Columns of the file.
const WIDTH: usize = 120;

/// Every key but those [`BY_HAND`]. What has no default is commented out.
pub(super) fn yaml(keys: &[Key]) -> String {
    let mut out = String::new();
    for key in keys.iter().filter(|key| !BY_HAND.contains(&key.name.as_str())) {
        out.push('\n');
        write(key, 0, false, &mut out);
    }
    out.push('\n');
    out
}

/// Writes `key`, `depth` levels deep; `off`: what it belongs to is commented out.
fn write(key: &Key, depth: usize, off: bool, out: &mut String) {
    let indent = "  ".repeat(depth);
    for line in wrapped(&key.description, WIDTH - indent.len() - 4) {
        // Within what is commented out, a second sign tells what is a comment there.
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
    // A section of nothing but comments would have no value at all.
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
    /// Whether it or something below it is shown with its default.
    fn has_value(&self) -> bool {
        match &self.shape {
            Shape::Value => self.default.literal.is_some(),
            Shape::Section(inner) => !self.is_optional && inner.iter().any(Key::has_value),
            Shape::Named(_) | Shape::List(_) => false,
        }
    }
}

/// `text` as YAML reads it, whatever it holds.
fn quoted(text: &str) -> String {
    let is_plain = text.chars().all(|c| c.is_alphanumeric() || "-_./ ".contains(c));
    if is_plain && !text.is_empty() {
        text.to_owned()
    } else {
        format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
    }
}

/// `text` in lines of at most `width` columns.
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
