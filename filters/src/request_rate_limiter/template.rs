//! Bodies of denials that the user wrote.

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue};

use crate::reply;

/// A body with placeholders: `{retry-after}`, `{limit}`, `{remaining}`, `{rule}` and `{route}`. Any other brace is text.
///
/// In JSON (`application/json`, `…+json`) names are escaped as within a string, in HTML and XML as text, and a wait that
/// does not help is `null`; elsewhere nothing is escaped and it is empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    content_type: HeaderValue,
    escape: Escape,
    parts: Vec<Part>,
}

/// What a denial says.
#[derive(Clone, Copy, Debug)]
pub(super) struct Facts<'a> {
    /// Seconds; `None` when waiting does not help.
    pub(super) retry_after: Option<u64>,
    pub(super) limit: u64,
    pub(super) remaining: Option<u64>,
    pub(super) rule: &'a str,
    pub(super) route: &'a str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Escape {
    Json,
    Markup,
    Nothing,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    Fact(Fact),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fact {
    RetryAfter,
    Limit,
    Remaining,
    Rule,
    Route,
}

const PLACEHOLDERS: [(&str, Fact); 5] = [
    ("{retry-after}", Fact::RetryAfter),
    ("{limit}", Fact::Limit),
    ("{remaining}", Fact::Remaining),
    ("{rule}", Fact::Rule),
    ("{route}", Fact::Route),
];

impl Template {
    /// The body `text`, sent as `content_type`; `None` where that cannot stand in a header field.
    #[must_use]
    pub fn parse(content_type: &str, text: &str) -> Option<Self> {
        let essence = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        let escape = if essence == "application/json" || essence.ends_with("+json") {
            Escape::Json
        } else if essence == "text/html" || essence.ends_with("xml") {
            Escape::Markup
        } else {
            Escape::Nothing
        };
        let mut parts = Vec::new();
        let mut rest = text;
        let next = |rest: &str| {
            let found = PLACEHOLDERS.iter().filter_map(|(name, fact)| Some((rest.find(name)?, name.len(), *fact)));
            found.min_by_key(|(at, ..)| *at)
        };
        while let Some((at, length, fact)) = next(rest) {
            parts.extend([Part::Text(rest[..at].to_owned()), Part::Fact(fact)]);
            rest = &rest[at + length..];
        }
        parts.push(Part::Text(rest.to_owned()));
        Some(Self { content_type: HeaderValue::from_str(content_type.trim()).ok()?, escape, parts })
    }

    /// The body, and the fields that go with it.
    pub(super) fn render(&self, facts: &Facts<'_>) -> (HeaderMap, Bytes) {
        let mut out = String::new();
        for part in &self.parts {
            match part {
                Part::Text(text) => out.push_str(text),
                Part::Fact(fact) => self.write(*fact, facts, &mut out),
            }
        }
        let mut headers = HeaderMap::new();
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        headers.insert(CONTENT_TYPE, self.content_type.clone());
        headers.insert(CONTENT_LENGTH, HeaderValue::from(out.len()));
        (headers, Bytes::from(out))
    }

    fn write(&self, fact: Fact, facts: &Facts<'_>, out: &mut String) {
        let mut number = |number: u64| out.push_str(itoa::Buffer::new().format(number));
        match fact {
            Fact::Limit => number(facts.limit),
            Fact::RetryAfter => match facts.retry_after {
                Some(secs) => number(secs),
                None if self.escape == Escape::Json => out.push_str("null"),
                None => {}
            },
            Fact::Remaining => match facts.remaining {
                Some(left) => number(left),
                None => out.push_str("-1"),
            },
            Fact::Rule => self.escape.write(facts.rule, out),
            Fact::Route => self.escape.write(facts.route, out),
        }
    }
}

impl Escape {
    fn write(self, text: &str, out: &mut String) {
        match self {
            Self::Nothing => out.push_str(text),
            Self::Json => {
                let quoted = reply::json_string(text);
                out.push_str(&quoted[1..quoted.len() - 1]);
            }
            Self::Markup => text.chars().for_each(|c| match c {
                '&' => out.push_str("&amp;"),
                '<' => out.push_str("&lt;"),
                '>' => out.push_str("&gt;"),
                '"' => out.push_str("&quot;"),
                '\'' => out.push_str("&#39;"),
                c => out.push(c),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn render(content_type: &str, text: &str, facts: Facts<'_>) -> String {
        let (headers, body) = Template::parse(content_type, text).unwrap().render(&facts);
        assert_eq!(headers[CONTENT_LENGTH], body.len().to_string());
        String::from_utf8(body.to_vec()).unwrap()
    }

    const FACTS: Facts<'_> =
        Facts { retry_after: Some(7), limit: 20, remaining: Some(0), rule: "a\"<b>", route: "orders" };

    #[test]
    fn placeholders_are_filled_in_and_other_braces_stay() {
        let text = r#"{"rule":"{rule}","wait":{retry-after},"of":[{limit},{remaining}],"x":"{unknown}"}"#;
        assert_eq!(
            render("application/json", text, FACTS),
            r#"{"rule":"a\"<b>","wait":7,"of":[20,0],"x":"{unknown}"}"#
        );
        assert_eq!(render("text/html; charset=utf-8", "<p>{rule} {route}", FACTS), "<p>a&quot;&lt;b&gt; orders");
        assert_eq!(render("text/plain", "{rule}{", FACTS), "a\"<b>{");
    }

    #[test]
    fn names_that_end_in_quotes_keep_them() {
        let facts = Facts { rule: "\"", ..FACTS };
        assert_eq!(render("application/problem+json", "\"{rule}\"", facts), r#""\"""#);
    }

    #[test]
    fn what_is_not_known_is_said_so() {
        let facts = Facts { retry_after: None, remaining: None, ..FACTS };
        assert_eq!(render("application/vnd.api+json", "{retry-after} {remaining}", facts), "null -1");
        assert_eq!(render("text/plain", "[{retry-after}]", facts), "[]");
        assert_eq!(Template::parse("text/plain\r\nX: y", ""), None);
    }
}
