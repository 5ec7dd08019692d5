//! Spring's expressions (SpEL), a subset called plain: texts, the name and the metadata of a service, comparisons and the
//! methods of texts.

mod evaluate;
mod parse;

use tollgate_java_regex::JavaRegex;

use crate::de::Spanned;
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

/// Parts of the address of an instance, by their names in Spring. Their values stand for those of any instance: no name of a
/// service has such a letter.
const ADDRESS: [(&str, &str, &str); 4] = [
    ("host", "getHost", "\u{1}host"),
    ("port", "getPort", "\u{1}port"),
    ("scheme", "getScheme", "\u{1}scheme"),
    ("uri", "getUri", "\u{1}scheme://\u{1}host:\u{1}port"),
];

/// Returns the value of a part of an address.
fn address(name: &str) -> Option<&'static str> {
    ADDRESS.iter().find(|(property, method, _)| [property, method].contains(&&name)).map(|(.., value)| *value)
}

/// Returns `uri` with the name of the service in place of the address of an instance: Spring takes the first instance, the
/// gateway balances over all of them. `None` if the URI has other parts of an address.
pub(super) fn balanced(uri: &str, service: &str) -> Option<String> {
    let [(.., host), (.., port), (.., scheme), _] = ADDRESS;
    let Some((before, after)) = uri.split_once(&format!("://{host}:{port}")) else {
        return (!uri.contains('\u{1}')).then(|| uri.to_owned());
    };
    let lb = match before {
        "http" | "https" => format!("lb:{before}"),
        _ if before == scheme => "lb".to_owned(),
        _ => return None,
    };
    (!after.contains('\u{1}')).then(|| format!("{lb}://{service}{after}"))
}

/// Part of an expression.
#[derive(Clone, Debug)]
enum Node {
    Literal(Value),
    Service,
    Metadata,
    /// Part of the address of an instance, as [`balanced`] finds it.
    Address(&'static str),
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
    ToString,
    ToUpperCase,
    Trim,
}

impl Expression {
    /// Reads an expression. Reports one that is not plain.
    pub(super) fn read(text: &Spanned<String>, diagnostics: &mut Diagnostics) -> Option<Self> {
        let has_address = |read: &Self| read.0.has(&|node| matches!(node, Node::Address(_)));
        Self::read_if(text, &|read| !has_address(read), diagnostics)
    }

    /// Reads the expression of a URI, which may have the address of an instance. Reports one that is not plain.
    pub(super) fn read_uri(text: &Spanned<String>, diagnostics: &mut Diagnostics) -> Option<Self> {
        let metadata = &Metadata::new();
        let uri = |read: &Self| read.text(Subject { service: "a", metadata });
        Self::read_if(text, &|read| uri(read).is_none_or(|uri| balanced(&uri, "a").is_some()), diagnostics)
    }

    fn read_if(
        text: &Spanned<String>,
        is_plain: &dyn Fn(&Self) -> bool,
        diagnostics: &mut Diagnostics,
    ) -> Option<Self> {
        let parsed = Self::parse(&text.value).filter(is_plain);
        if parsed.is_none() {
            let shown: String = text.value.trim().chars().take(200).collect();
            diagnostics.error(text.span, format!("the expression `{shown}` is not supported")).help(
                "use texts in quotes, `serviceId`, `metadata['key']`, `+`, `==`, `!=`, `matches`, `!`, `and`, `or` and methods such as \
                 `startsWith`, and in a URI `getUri()`; otherwise list the routes with `uri: lb://NAME`",
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
        self.0.has(&|node| matches!(node, Node::Metadata))
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
    /// Returns true if `is_it` for this part or one of its parts.
    fn has(&self, is_it: &dyn Fn(&Self) -> bool) -> bool {
        is_it(self)
            || match self {
                Self::Metadata | Self::Literal(_) | Self::Service | Self::Address(_) => false,
                Self::List(items) => items.iter().any(|item| item.has(is_it)),
                Self::Not(one) | Self::Matches(one, _) => one.has(is_it),
                Self::And(one, other)
                | Self::Or(one, other)
                | Self::Equal(one, other, _)
                | Self::Join(one, other)
                | Self::Entry(one, other)
                | Self::Default(one, other) => one.has(is_it) || other.has(is_it),
                Self::Call(on, _, arguments) => on.has(is_it) || arguments.iter().any(|argument| argument.has(is_it)),
                Self::Choice(condition, one, other) => condition.has(is_it) || one.has(is_it) || other.has(is_it),
            }
    }
}

#[cfg(test)]
mod tests;
