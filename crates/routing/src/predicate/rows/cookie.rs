//! `Cookie`: the pairs of the `Cookie` field (RFC 6265, section 4.2).

use std::fmt;

use http::{HeaderName, header};

use crate::decision::Decision;
use crate::error::PredicateError;
use crate::predicate::Predicate;
use crate::predicate::condition::{Condition, header_text, quoted_list};
use crate::predicate::row::{PredicateArgument, PredicateForm, PredicateRow};
use crate::predicate::value_regex::ValueRegex;
use crate::request::{RequestPart, RequestView};

pub(super) const COOKIE: PredicateRow = PredicateRow {
    name: "Cookie",
    doc: "The value of a cookie of this name matches.",
    form: PredicateForm::Two(
        [
            PredicateArgument::text("name", "Cookie name."),
            PredicateArgument::text("regexp", "Regular expression that must match its whole value."),
        ],
        Predicate::cookie,
    ),
    remark: None,
};

#[derive(Clone, Debug, PartialEq)]
struct Cookie {
    name: Box<str>,
    regexp: ValueRegex,
}

/// Header field with the cookies.
static FIELD: HeaderName = header::COOKIE;

impl Predicate {
    /// `Cookie`: a cookie of this name, case-sensitive, has a value that matches the whole of `regexp`. Quotes around a
    /// value are removed.
    ///
    /// # Errors
    /// Returns an error for an empty name, or for an invalid expression.
    pub fn cookie(name: &str, regexp: &str) -> Result<Self, PredicateError> {
        if name.is_empty() {
            return Err(PredicateError::NoValues { kind: "cookie name" });
        }
        Ok(Self::other(Cookie { name: name.into(), regexp: ValueRegex::parse(regexp)? }))
    }
}

impl Condition for Cookie {
    fn decide(&self, request: &RequestView<'_>) -> Decision {
        // HTTP/2 may split cookies over several fields (RFC 9113, section 8.2.3).
        Decision::any(request.headers.get_all(&FIELD).iter().map(|field| {
            let text = header_text(field);
            let pairs = text.split(';').filter_map(|pair| pair.split_once('='));
            Decision::any(pairs.filter(|(name, _)| name.trim() == &*self.name).map(|(_, value)| {
                let value = value.trim();
                let inside = value.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
                self.regexp.decide(inside.unwrap_or(value))
            }))
        }))
    }

    fn observe(&self, request: &RequestView<'_>) -> String {
        let cookies: Vec<_> = request.headers.get_all(&FIELD).iter().map(header_text).collect();
        match cookies.is_empty() {
            true => "`Cookie` is missing".to_owned(),
            false => format!("`Cookie` is {}", quoted_list(&cookies)),
        }
    }

    fn reads(&self) -> Vec<RequestPart<'_>> {
        vec![RequestPart::Header(&FIELD)]
    }
}

impl fmt::Display for Cookie {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cookie: name={} regexp=", self.name)?;
        self.regexp.fmt(f)
    }
}
