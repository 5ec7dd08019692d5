//! Placeholders of Maven builds in unquoted values: `version: @project.version@`, which YAML does not allow.

use std::borrow::Cow;

/// Character in place of the first `@`.
const MARK: char = '\u{E000}';

/// Text with marks.
pub(super) struct Marked<'t> {
    pub(super) text: Cow<'t, str>,
    /// Positions behind the marks, in `text`.
    behind: Vec<usize>,
}

impl Marked<'_> {
    /// Returns a scalar of the text as it was.
    pub(super) fn unmarked<'s>(&self, scalar: Cow<'s, str>) -> Cow<'s, str> {
        if self.behind.is_empty() { scalar } else { Cow::Owned(scalar.replace(MARK, "@")) }
    }

    /// Returns the position in the text without marks.
    pub(super) fn original(&self, at: usize) -> usize {
        at - self.behind.partition_point(|behind| *behind <= at) * (MARK.len_utf8() - 1)
    }
}

/// Returns `text` with a mark in place of each `@` that begins a placeholder where a value begins.
pub(super) fn marked(text: &str) -> Marked<'_> {
    if !text.contains('@') || text.contains(MARK) {
        return Marked { text: Cow::Borrowed(text), behind: Vec::new() };
    }
    let (mut out, mut behind) = (String::new(), Vec::new());
    let mut copied = 0;
    for (at, _) in text.match_indices('@') {
        if at >= copied && begins_value(&text[..at]) && is_placeholder(&text[at + 1..]) {
            out.push_str(&text[copied..at]);
            out.push(MARK);
            behind.push(out.len());
            copied = at + 1;
        }
    }
    out.push_str(&text[copied..]);
    Marked { text: Cow::Owned(out), behind }
}

/// Returns true if a value begins behind `before`.
fn begins_value(before: &str) -> bool {
    let trimmed = before.trim_end_matches([' ', '\t']);
    let is_apart = trimmed.len() < before.len();
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
            let marked = marked(text);
            assert!(marked.behind.len() == 1 && marked.text.matches(MARK).count() == 1, "{text}");
            assert_eq!(marked.unmarked(marked.text.clone()), text);
            assert_eq!(marked.original(marked.text.len()), text.len());
            assert_eq!(marked.original(marked.text.find(MARK).unwrap_or(0)), text.find('@').unwrap_or(0));
        }
        for text in
            ["", "a: b@c@d", "a: \"@x@\"", "a: @x", "a: @ @", "mail: me@example.org", "a:@x@", "\u{E000} a: @x@"]
        {
            assert!(marked(text).behind.is_empty(), "{text}");
        }
    }
}
