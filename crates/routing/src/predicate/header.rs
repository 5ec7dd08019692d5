//! `Header`: the values of a field, split as lists.

use std::borrow::Cow;

use http::{HeaderMap, HeaderName, HeaderValue};

use super::regexp::Regexp;

/// Whether one element of the field's values matches; without an expression, whether there is one that is not empty.
pub(super) fn matches(headers: &HeaderMap, name: &HeaderName, regexp: Option<&Regexp>) -> bool {
    headers.get_all(name).iter().any(|value| {
        let text = text(value);
        Elements(Some(&text)).any(|element| regexp.is_none_or(|regexp| regexp.matches(&unquoted(element))))
    })
}

/// The value as text; bytes that are not ASCII are ISO 8859-1, as Java servers read them.
pub(super) fn text(value: &HeaderValue) -> Cow<'_, str> {
    match value.to_str() {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => Cow::Owned(value.as_bytes().iter().map(|&byte| char::from(byte)).collect()),
    }
}

/// The elements of a list that are not empty, without the white space around them (RFC 9110, section 5.6.1). A comma
/// within a quoted string does not split.
struct Elements<'a>(Option<&'a str>);

impl<'a> Iterator for Elements<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        loop {
            let list = self.0?;
            let (element, rest) = match comma(list) {
                Some(at) => (list.get(..at).unwrap_or_default(), list.get(at + 1..)),
                None => (list, None),
            };
            self.0 = rest;
            let element = element.trim_matches([' ', '\t']);
            if !element.is_empty() && element != "\"\"" {
                return Some(element);
            }
        }
    }
}

/// The first comma outside of quoted strings. A string that is never closed is none.
fn comma(list: &str) -> Option<usize> {
    let mut is_quoted = false;
    let mut is_escaped = false;
    let outside = list.bytes().position(|byte| {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_quoted => is_escaped = true,
            b'"' => is_quoted = !is_quoted,
            b',' => return !is_quoted,
            _ => {}
        }
        false
    });
    if outside.is_none() && is_quoted { list.find(',') } else { outside }
}

/// What a quoted string says (RFC 9110, section 5.6.4); anything else as it is.
fn unquoted(element: &str) -> Cow<'_, str> {
    let inside = element.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    match inside {
        Some(inside) if inside.contains('\\') => {
            let mut is_escaped = false;
            let kept = inside.chars().filter(|&char| {
                is_escaped = char == '\\' && !is_escaped;
                !is_escaped
            });
            Cow::Owned(kept.collect())
        }
        Some(inside) => Cow::Borrowed(inside),
        None => Cow::Borrowed(element),
    }
}
