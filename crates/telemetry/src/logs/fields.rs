//! Fields of a log line in text form, with control characters escaped.

use std::fmt::{self, Debug, Write};

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

/// Returns true for control characters, line separators, and the characters that reverse the direction of text.
fn is_unsafe(c: char) -> bool {
    c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
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
    }
}
