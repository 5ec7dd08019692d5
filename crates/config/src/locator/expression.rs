//! Spring's expressions, as far as they are plain: texts in quotes and `serviceId`, joined by `+`.

use crate::de::spanned::Spanned;
use crate::diagnostics::Diagnostics;

/// Expression of Spring: texts and `serviceId`, joined by `+`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Expression(Vec<Term>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Term {
    Text(String),
    Service,
    LowerCase,
    UpperCase,
}

/// Splits at `separator` outside of quotes.
pub(super) fn split(text: &str, separator: char) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut is_quoted = false;
    for letter in text.chars() {
        is_quoted ^= letter == '\'';
        if letter == separator && !is_quoted {
            parts.push(String::new());
        } else if let Some(part) = parts.last_mut() {
            part.push(letter);
        }
    }
    parts
}

impl Expression {
    /// Reads an expression. Reports one that is not plain.
    pub(super) fn read(text: &Spanned<String>, diagnostics: &mut Diagnostics) -> Option<Self> {
        let parsed = Self::parse(&text.value);
        if parsed.is_none() {
            diagnostics
                .error(text.span, format!("the expression `{}` is not supported", text.value.trim()))
                .help("use texts in single quotes and `serviceId`, joined by `+`");
        }
        parsed
    }

    /// Reads an expression; `None` if it is not plain.
    pub(super) fn parse(text: &str) -> Option<Self> {
        split(text, '+').iter().map(|term| Term::parse(term.trim())).collect::<Option<_>>().map(Self)
    }

    /// Returns the value for the service with that name.
    pub(super) fn value(&self, service: &str) -> String {
        let term = |term: &Term| match term {
            Term::Text(text) => text.clone(),
            Term::Service => service.to_owned(),
            Term::LowerCase => service.to_lowercase(),
            Term::UpperCase => service.to_uppercase(),
        };
        self.0.iter().map(term).collect()
    }
}

impl Term {
    fn parse(text: &str) -> Option<Self> {
        match text.strip_prefix('\'').and_then(|text| text.strip_suffix('\'')) {
            // A quote within a text is doubled.
            Some(quoted) if !quoted.replace("''", "").contains('\'') => Some(Self::Text(quoted.replace("''", "'"))),
            Some(_) => None,
            None => match text {
                "serviceId" | "getServiceId()" => Some(Self::Service),
                "serviceId.toLowerCase()" => Some(Self::LowerCase),
                "serviceId.toUpperCase()" => Some(Self::UpperCase),
                _ if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) => {
                    Some(Self::Text(text.to_owned()))
                }
                _ => None,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn plain_expressions_are_evaluated() {
        let value = |text: &str| Expression::parse(text).map(|read| read.value("Orders"));
        assert_eq!(value("'lb://'+serviceId").as_deref(), Some("lb://Orders"));
        assert_eq!(
            value("'/' + serviceId.toLowerCase() + '/?(?<remaining>.*)'").as_deref(),
            Some("/orders/?(?<remaining>.*)")
        );
        assert_eq!(value("'it''s'").as_deref(), Some("it's"));
        assert_eq!(value("'a+b'").as_deref(), Some("a+b"));
        for wrong in ["", "metadata['x']", "'a", "T(java.lang.Runtime)", "serviceId.length()", "'a' 'b'"] {
            assert_eq!(value(wrong), None, "{wrong}");
        }
    }
}
