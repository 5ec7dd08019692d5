//! Spring's expressions (SpEL), a subset called plain: texts, the name and the metadata of a service, comparisons and the
//! methods of texts.

mod evaluate;
mod parse;

use tollgate_java_regex::JavaRegex;

use crate::de::spanned::Spanned;
use crate::diagnostics::Diagnostics;
use crate::locator::Metadata;

/// Longest expression, in bytes. It bounds the depth of the evaluation.
const MAX_LENGTH: usize = 1024;

/// Expression of Spring.
#[derive(Clone, Debug)]
pub(super) struct Expression(Node);

/// Instance of a service, as expressions see it.
#[derive(Clone, Copy)]
pub(super) struct Subject<'s> {
    pub(super) service: &'s str,
    pub(super) metadata: &'s Metadata,
}

/// Part of an expression.
#[derive(Clone, Debug)]
enum Node {
    Literal(Value),
    Service,
    Metadata,
    List(Vec<Node>),
    Not(Box<Node>),
    And(Box<Node>, Box<Node>),
    Or(Box<Node>, Box<Node>),
    /// Both are equal, or not.
    Equal(Box<Node>, Box<Node>, bool),
    Matches(Box<Node>, Box<JavaRegex>),
    Join(Box<Node>, Box<Node>),
    /// Entry of a map.
    Entry(Box<Node>, Box<Node>),
    Call(Box<Node>, Method, Vec<Node>),
    /// `condition ? one : other`.
    Choice(Box<Node>, Box<Node>, Box<Node>),
    /// `one ?: other`.
    Default(Box<Node>, Box<Node>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Value {
    Null,
    Flag(bool),
    Text(String),
    Number(i64),
    List(Vec<Value>),
    Map(Metadata),
}

/// Method of a text, a list or a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Method {
    StartsWith,
    EndsWith,
    Contains,
    ContainsKey,
    Equals,
    EqualsIgnoreCase,
    IsEmpty,
    Get,
    Replace,
    ToLowerCase,
    ToUpperCase,
    Trim,
}

impl Expression {
    /// Reads an expression. Reports one that is not plain.
    pub(super) fn read(text: &Spanned<String>, diagnostics: &mut Diagnostics) -> Option<Self> {
        let parsed = Self::parse(&text.value);
        if parsed.is_none() {
            let shown: String = text.value.trim().chars().take(200).collect();
            diagnostics.error(text.span, format!("the expression `{shown}` is not supported")).help(
                "use texts in quotes, `serviceId`, `metadata['key']`, `+`, `==`, `!=`, `matches`, `!`, `and`, `or` and methods such as \
                 `startsWith`; otherwise list the routes with `uri: lb://NAME`",
            );
        }
        parsed
    }

    /// Reads an expression; `None` if it is not plain.
    pub(super) fn parse(text: &str) -> Option<Self> {
        if text.len() > MAX_LENGTH { None } else { parse::parse(text).map(Self) }
    }

    /// Returns true if the value depends on the instances of a service.
    pub(super) fn uses_metadata(&self) -> bool {
        self.0.uses_metadata()
    }

    /// Returns the value as a text; `None` if it has none.
    pub(super) fn text(&self, subject: Subject<'_>) -> Option<String> {
        self.0.value(subject)?.text()
    }

    /// Returns true if the value is true.
    pub(super) fn is_true(&self, subject: Subject<'_>) -> bool {
        self.0.value(subject).and_then(|value| value.flag()) == Some(true)
    }
}

impl Node {
    fn uses_metadata(&self) -> bool {
        match self {
            Self::Metadata => true,
            Self::Literal(_) | Self::Service => false,
            Self::List(items) => items.iter().any(Self::uses_metadata),
            Self::Not(one) | Self::Matches(one, _) => one.uses_metadata(),
            Self::And(one, other)
            | Self::Or(one, other)
            | Self::Equal(one, other, _)
            | Self::Join(one, other)
            | Self::Entry(one, other)
            | Self::Default(one, other) => one.uses_metadata() || other.uses_metadata(),
            Self::Call(on, _, arguments) => on.uses_metadata() || arguments.iter().any(Self::uses_metadata),
            Self::Choice(condition, one, other) => {
                condition.uses_metadata() || one.uses_metadata() || other.uses_metadata()
            }
        }
    }
}

#[cfg(test)]
mod tests;
