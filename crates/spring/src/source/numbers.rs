//! Numbers of YAML 1.1, the version that Spring's parser reads: `1_000`, octal `010` and `1:30`, which is 90.

use tollgate_document::yaml::{Node, NodeKind};

/// Writes such numbers below `node` as decimal ones, unless they have quotes. `source` is the text of its file.
pub(crate) fn resolve(node: &mut Node, source: &str) {
    let written = source.get(node.span.bytes().range());
    match &mut node.kind {
        NodeKind::Scalar(text) if written == Some(text) => {
            if let Some(number) = number(text) {
                *text = number;
            }
        }
        NodeKind::Scalar(_) | NodeKind::Null => {}
        NodeKind::Seq(items) => items.iter_mut().for_each(|item| resolve(item, source)),
        NodeKind::Map(entries) => entries.iter_mut().for_each(|(_, value)| resolve(value, source)),
    }
}

/// Returns the decimal form of a number that YAML 1.2 reads as a text.
fn number(text: &str) -> Option<String> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    if !digits.starts_with(|first: char| first.is_ascii_digit()) {
        return None;
    }
    let sign = if text.starts_with('-') { "-" } else { "" };
    let plain = digits.replace('_', "");
    let decimal = |digits: &str| digits.bytes().all(|digit| digit.is_ascii_digit());
    let size = match digits.as_bytes() {
        [b'0', b'x', ..] => u64::from_str_radix(&plain[2..], 16).ok()?,
        [b'0', b'b', ..] => u64::from_str_radix(&plain[2..], 2).ok()?,
        [b'0', _, ..] if decimal(&plain) => u64::from_str_radix(&plain[1..], 8).ok()?,
        [b'1'..=b'9', ..] if plain.contains(':') => base_60(&plain)?,
        [b'1'..=b'9', ..] if decimal(&plain) => plain.parse().ok()?,
        _ => {
            let (whole, fraction) = plain.split_once('.')?;
            let is_float = digits.contains('_') && decimal(whole) && decimal(fraction);
            return is_float.then(|| plain.parse::<f64>().ok()).flatten().map(|number| format!("{sign}{number:?}"));
        }
    };
    Some(format!("{sign}{size}"))
}

/// Returns the value of `1:30`, a number to the base 60.
fn base_60(text: &str) -> Option<u64> {
    let mut parts = text.split(':');
    let first = parts.next()?.parse().ok()?;
    parts.try_fold(first, |value: u64, part| {
        let part = part.parse::<u64>().ok().filter(|number| *number < 60 && (1..=2).contains(&part.len()))?;
        value.checked_mul(60)?.checked_add(part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_yaml_1_1_are_decimal() {
        for (text, expected) in [
            ("1_000", Some("1000")),
            ("-1_000", Some("-1000")),
            ("010", Some("8")),
            ("0_17", Some("15")),
            ("00", Some("0")),
            ("0x1_F", Some("31")),
            ("0b1_01", Some("5")),
            ("1:30", Some("90")),
            ("190:20:30", Some("685230")),
            ("1_000.50", Some("1000.5")),
            ("080", None),
            ("1:60", None),
            ("8080:80", None),
            ("0:30", None),
            ("1_a", None),
            ("_1", None),
            ("10.0.0.1", None),
            ("127.0.0.1:80", None),
            ("5s", None),
        ] {
            assert_eq!(number(text).as_deref(), expected, "{text}");
        }
    }
}
