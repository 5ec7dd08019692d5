//! Text from clients, upstreams and Redis as a terminal may show it: control characters, marks of text direction and invisible
//! characters are escaped.

use std::borrow::Cow;
use std::fmt::{self, Debug, Write};

pub use tollgate_config::is_unsafe;
use tracing::field::Field;
use tracing_subscriber::field::MakeExt;
use tracing_subscriber::fmt::FormatFields;
use tracing_subscriber::fmt::format::{Writer, debug_fn};

/// Formats a message and its fields as `message name=value …`.
///
/// Control characters are escaped as in Rust (`\n`, `\u{1b}`), so that a value from a client, an upstream or Redis can
/// neither start a line nor control a terminal. Messages keep their line breaks: they show diagnostics of the
/// configuration.
pub(super) fn escaped() -> impl for<'w> FormatFields<'w> + Send + Sync + 'static {
    debug_fn(field).delimited(" ")
}

fn field(writer: &mut Writer<'_>, field: &Field, value: &dyn Debug) -> fmt::Result {
    match field.name() {
        "message" => write!(Escaped { out: writer, keeps_lines: true }, "{value:?}"),
        // Fields that `tracing-log` adds to records of the `log` crate.
        name if name.starts_with("log.") => Ok(()),
        name => {
            write!(writer, "{}=", name.trim_start_matches("r#"))?;
            write!(Escaped { out: writer, keeps_lines: false }, "{value:?}")
        }
    }
}

/// Writer that escapes control characters.
struct Escaped<'a, W> {
    out: &'a mut W,
    keeps_lines: bool,
}

impl<W: Write> Write for Escaped<'_, W> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let is_escaped = |c: char| is_unsafe(c) && !(self.keeps_lines && matches!(c, '\n' | '\t'));
        let mut rest = text;
        while let Some(at) = rest.find(is_escaped) {
            let (plain, from) = rest.split_at(at);
            self.out.write_str(plain)?;
            let mut chars = from.chars();
            if let Some(c) = chars.next() {
                write!(self.out, "{}", c.escape_default())?;
            }
            rest = chars.as_str();
        }
        self.out.write_str(rest)
    }
}

/// Writes `c` as an escape of JSON.
pub fn escape_json(c: char, out: &mut String) {
    for unit in c.encode_utf16(&mut [0; 2]) {
        // Writing to a `String` cannot fail.
        let _ = write!(out, "\\u{unit:04x}");
    }
}

/// Returns `text` with unsafe characters escaped as in Rust.
pub fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    // Writing to a `String` cannot fail.
    let _ = Escaped { out: &mut out, keeps_lines: false }.write_str(text);
    out
}

/// Returns JSON with unsafe characters escaped, which may be raw in its strings. Line breaks stay.
pub fn printable_json(json: &str) -> Cow<'_, str> {
    let is_escaped = |c: char| is_unsafe(c) && c != '\n';
    if !json.contains(is_escaped) {
        return json.into();
    }
    let mut out = String::with_capacity(json.len() + 6);
    for c in json.chars() {
        if is_escaped(c) {
            escape_json(c, &mut out);
        } else {
            out.push(c);
        }
    }
    out.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn escape(text: &str, keeps_lines: bool) -> String {
        let mut out = String::new();
        let _ = write!(Escaped { out: &mut out, keeps_lines }, "{text}");
        out
    }

    #[test]
    fn control_characters_cannot_end_a_line_or_reach_a_terminal() {
        let key = "a\r\nb\u{1b}[31m\u{7f}\u{9b}\u{202e}é";
        assert_eq!(escape(key, false), "a\\r\\nb\\u{1b}[31m\\u{7f}\\u{9b}\\u{202e}é");
        assert_eq!(escape(key, true), "a\\r\nb\\u{1b}[31m\\u{7f}\\u{9b}\\u{202e}é");
        assert_eq!(printable(key), escape(key, false));
        let json = printable_json("{\n\"é\u{200f}\": \"\u{202e}\u{9b}\"\n}");
        assert_eq!(json, "{\n\"é\\u200f\": \"\\u202e\\u009b\"\n}");
    }

    #[test]
    fn keys_that_differ_by_invisible_characters_look_different() {
        for invisible in
            ['\u{200b}', '\u{feff}', '\u{2060}', '\u{ad}', '\u{200d}', '\u{fe0f}', '\u{e0001}', '\u{e007f}']
        {
            let key = format!("bob{invisible}");
            assert_eq!(printable(&key), format!("bob\\u{{{:x}}}", u32::from(invisible)));
            let json = format!("\"{key}\"");
            assert!(printable_json(&json).is_ascii() && !printable_json(&json).contains(is_unsafe), "{json}");
        }
        // Above U+FFFF, JSON has two escapes.
        assert_eq!(printable_json("\"a\u{200b}\u{e0001}\""), "\"a\\u200b\\udb40\\udc01\"");
        assert_eq!(printable("é 日本 ü"), "é 日本 ü");
    }
}
