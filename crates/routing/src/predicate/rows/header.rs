//! `Header`: the values of a header field, split as lists.

use std::borrow::Cow;
use std::fmt;

use http::HeaderName;

use crate::decision::Decision;
use crate::error::PredicateError;
use crate::predicate::Predicate;
use crate::predicate::condition::{Condition, OrNull, header_text, observe_values};
use crate::predicate::row::{PredicateArgument, PredicateForm, PredicateRow};
use crate::predicate::value_regex::{OPTIONAL_REGEXP, ValueRegex};
use crate::request::{RequestPart, RequestView};

pub(super) const HEADER: PredicateRow = PredicateRow {
    name: "Header",
    doc: "A value of the header matches; comma-separated lists are split. Without `regexp`, any value that is not empty matches.",
    form: PredicateForm::OneOrTwo(
        [PredicateArgument::text("header", "Header name."), OPTIONAL_REGEXP],
        Predicate::header,
    ),
    remark: None,
};

#[derive(Clone, Debug, PartialEq)]
struct Header {
    name: HeaderName,
    /// The name as configured, for display.
    configured_name: Box<str>,
    regexp: Option<ValueRegex>,
}

impl Predicate {
    /// `Header`: a value of the field matches the whole of `regexp`. Without `regexp`, any value that is
    /// not empty matches.
    ///
    /// Values are the elements of a comma-separated list (RFC 9110, section 5.6.1).
    ///
    /// # Errors
    /// Returns an error for an invalid field name, or for an invalid expression.
    pub fn header(name: &str, regexp: Option<&str>) -> Result<Self, PredicateError> {
        let parsed = HeaderName::from_bytes(name.as_bytes())
            .map_err(|_| PredicateError::value(name, "a header name: write one such as X-Request-Id"))?;
        let regexp = ValueRegex::parse_optional(regexp)?;
        Ok(Self::other(Header { name: parsed, configured_name: name.into(), regexp }))
    }
}

impl Condition for Header {
    fn decide(&self, request: &RequestView<'_>) -> Decision {
        Decision::any(request.headers.get_all(&self.name).iter().map(|value| {
            let text = header_text(value);
            Decision::any(Elements(Some(&text)).map(|element| match &self.regexp {
                Some(regexp) => regexp.decide(&unquote(element)),
                None => Decision::Yes,
            }))
        }))
    }

    fn observe(&self, request: &RequestView<'_>) -> String {
        let values: Vec<_> = request.headers.get_all(&self.name).iter().map(header_text).collect();
        observe_values("header", &self.configured_name, &values)
    }

    fn reads(&self) -> Vec<RequestPart<'_>> {
        vec![RequestPart::Header(&self.name)]
    }
}

impl fmt::Display for Header {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Header: {} regexp=", self.configured_name)?;
        OrNull(&self.regexp).fmt(f)
    }
}

/// Iterator over the elements of a list that are not empty, without the white space around them (RFC 9110, section
/// 5.6.1). A comma in a quoted string does not split.
struct Elements<'a>(Option<&'a str>);

impl<'a> Iterator for Elements<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        loop {
            let list = self.0?;
            let (element, rest) = match find_comma(list) {
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

/// Returns the position of the first comma outside of quoted strings. An unclosed quote is an ordinary character.
fn find_comma(list: &str) -> Option<usize> {
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

/// Returns the content of a quoted string (RFC 9110, section 5.6.4). Other text is returned as it is.
fn unquote(element: &str) -> Cow<'_, str> {
    let inside = element.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    match inside {
        Some(inside) if inside.contains('\\') => {
            let mut is_escaped = false;
            let unescaped = inside.chars().filter(|&char| {
                is_escaped = char == '\\' && !is_escaped;
                !is_escaped
            });
            Cow::Owned(unescaped.collect())
        }
        Some(inside) => Cow::Borrowed(inside),
        None => Cow::Borrowed(element),
    }
}
