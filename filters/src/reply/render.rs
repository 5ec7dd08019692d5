//! Bodies of denials, rendered from templates.

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue};

use super::json::json_string;
use super::template::{Escape, Placeholder, Segment, Template};

/// Values of the placeholders for one denial.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DenialFacts<'a> {
    /// In seconds; `None` if waiting does not help.
    pub(crate) retry_after: Option<u64>,
    pub(crate) limit: u64,
    pub(crate) remaining: Option<u64>,
    pub(crate) rule: &'a str,
    pub(crate) route: &'a str,
    /// Empty without a plan.
    pub(crate) plan: &'a str,
    pub(crate) key: &'a str,
}

impl Template {
    /// Returns the body and its header fields.
    pub(crate) fn render(&self, facts: &DenialFacts<'_>) -> (HeaderMap, Bytes) {
        let mut out = String::new();
        for segment in &self.segments {
            match segment {
                Segment::Text(text) => out.push_str(text),
                Segment::Placeholder(placeholder) => self.write(*placeholder, facts, &mut out),
            }
        }
        let mut headers = HeaderMap::new();
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        headers.insert(CONTENT_TYPE, self.content_type.clone());
        (headers, Bytes::from(out))
    }

    fn write(&self, placeholder: Placeholder, facts: &DenialFacts<'_>, out: &mut String) {
        let mut number = |number: u64| out.push_str(itoa::Buffer::new().format(number));
        match placeholder {
            Placeholder::Limit => number(facts.limit),
            Placeholder::RetryAfter => match facts.retry_after {
                Some(secs) => number(secs),
                None if self.escape == Escape::Json => out.push_str("null"),
                None => {}
            },
            Placeholder::Remaining => match facts.remaining {
                Some(left) => number(left),
                None => out.push_str("-1"),
            },
            Placeholder::Rule => self.escape.write(facts.rule, out),
            Placeholder::Route => self.escape.write(facts.route, out),
            Placeholder::Plan => self.escape.write(facts.plan, out),
            Placeholder::Key => self.escape.write(facts.key, out),
        }
    }
}

impl Escape {
    fn write(self, text: &str, out: &mut String) {
        match self {
            Self::Nothing => out.push_str(text),
            Self::Json => {
                let quoted = json_string(text);
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
    use crate::reply::TemplateError;

    fn render(content_type: &str, text: &str, facts: DenialFacts<'_>) -> String {
        let (_, body) = Template::parse(content_type, text).unwrap().render(&facts);
        String::from_utf8(body.to_vec()).unwrap()
    }

    const FACTS: DenialFacts<'_> = DenialFacts {
        retry_after: Some(7),
        limit: 20,
        remaining: Some(0),
        rule: "a\"<b>",
        route: "orders",
        plan: "gold",
        key: "k",
    };

    #[test]
    fn placeholders_are_replaced_and_other_braces_stay() {
        let text = r#"{"rule":"{rule}","wait":{retry-after},"of":[{limit},{remaining}],"x":{"y":"{ z }"},"by":"{plan} {key}"}"#;
        assert_eq!(
            render("application/json", text, FACTS),
            r#"{"rule":"a\"<b>","wait":7,"of":[20,0],"x":{"y":"{ z }"},"by":"gold k"}"#
        );
        assert_eq!(render("text/html; charset=utf-8", "<p>{rule} {route}", FACTS), "<p>a&quot;&lt;b&gt; orders");
        assert_eq!(render("text/plain", "{rule}{", FACTS), "a\"<b>{");
        assert_eq!(render("text/plain", "{ limit } {limit }{ user }{{ key }}", FACTS), "20 20{ user }{k}");
    }

    #[test]
    fn names_that_end_in_quotes_keep_them() {
        let facts = DenialFacts { rule: "\"", ..FACTS };
        assert_eq!(render("application/problem+json", "\"{rule}\"", facts), r#""\"""#);
    }

    #[test]
    fn unknown_values_are_null_empty_or_minus_one() {
        let facts = DenialFacts { retry_after: None, remaining: None, ..FACTS };
        assert_eq!(render("application/vnd.api+json", "{retry-after} {remaining}", facts), "null -1");
        assert_eq!(render("text/plain", "[{retry-after}]", facts), "[]");
        let field = "text/plain\r\nX: y";
        assert_eq!(Template::parse(field, ""), Err(TemplateError::ContentType(field.to_owned())));
    }

    #[test]
    fn an_unknown_placeholder_is_an_error() {
        for (name, spaces) in [("retry_after", ""), ("Limit", ""), ("user", ""), ("Limit", " "), ("retry_after", " ")] {
            let text = format!("{{\"wait\": {{limit}}, {{{spaces}{name}{spaces}}}}}");
            assert_eq!(Template::parse("application/json", &text), Err(TemplateError::Placeholder(name.to_owned())));
        }
    }

    #[test]
    fn a_placeholder_without_its_closing_brace_is_an_error() {
        for text in
            ["{key", "{key}: { limit", r#"{"key": "{key"}"#, r#"{"wait": {retry-after, "key": "{key}"}"#, "{Limit\n}"]
        {
            assert!(matches!(Template::parse("text/plain", text), Err(TemplateError::Unclosed(_))), "{text}");
        }
        for text in ["{key: 1}", "{limit reached}", "{keys", "{", "{{key}}", "{limit: {limit}}"] {
            assert!(Template::parse("text/plain", text).is_ok(), "{text}");
        }
    }
}
