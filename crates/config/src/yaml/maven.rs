//! Placeholders of Maven builds in unquoted values: `version: @project.version@`, which YAML does not allow.

use std::borrow::Cow;

/// Character in place of the first `@`, so that lines and columns stay the same.
const MARK: char = '\u{E000}';

/// Returns `text` with a mark in place of each `@` that begins a placeholder where a value begins, and true if there are any.
pub(super) fn marked(text: &str) -> (Cow<'_, str>, bool) {
    if !text.contains('@') || text.contains(MARK) {
        return (Cow::Borrowed(text), false);
    }
    let mut out = String::new();
    let mut copied = 0;
    for (at, _) in text.match_indices('@') {
        if at >= copied && begins_value(&text[..at]) && is_placeholder(&text[at + 1..]) {
            out.push_str(&text[copied..at]);
            out.push(MARK);
            copied = at + 1;
        }
    }
    if copied == 0 {
        return (Cow::Borrowed(text), false);
    }
    out.push_str(&text[copied..]);
    (Cow::Owned(out), true)
}

/// Returns a scalar of a marked text as it was.
pub(super) fn unmarked(scalar: &str) -> String {
    scalar.replace(MARK, "@")
}

/// Returns true if a value begins behind `before`.
fn begins_value(before: &str) -> bool {
    let line = before.rsplit('\n').next().unwrap_or(before);
    let trimmed = line.trim_end_matches([' ', '\t']);
    let is_apart = trimmed.len() < line.len();
    trimmed.ends_with(['[', '{', ',']) || (is_apart && trimmed.ends_with([':', '-']))
}

/// Returns true if `text` begins with a name and `@`.
fn is_placeholder(text: &str) -> bool {
    let end = text.find(|c: char| !(c.is_ascii_alphanumeric() || ".-_".contains(c))).unwrap_or(text.len());
    end > 0 && text[end..].starts_with('@')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_values_that_begin_with_a_placeholder_are_marked() {
        for text in ["a: @x.y@", "- @x@", "[@x@, b]", "{a: @x@-1}", "[a,@x@]"] {
            let (marked, is_marked) = marked(text);
            assert!(is_marked && marked.matches(MARK).count() == 1, "{text}");
            assert_eq!((unmarked(&marked), marked.chars().count()), (text.to_owned(), text.chars().count()));
        }
        for text in
            ["", "a: b@c@d", "a: \"@x@\"", "a: @x", "a: @ @", "mail: me@example.org", "a:@x@", "\u{E000} a: @x@"]
        {
            assert!(!marked(text).1, "{text}");
        }
    }
}
