//! Spring's expressions (SpEL), a subset called plain: texts, the name and the metadata of a service, comparisons and the
//! methods of texts.

mod parse;
#[cfg(test)]
mod tests;

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
    Call(Box<Node>, &'static str, Vec<Node>),
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

/// Largest text in bytes. Each `replace` may multiply the length of a text.
const MAX_TEXT: usize = 4096;

impl Node {
    /// Returns the value; `None` if there is none.
    pub(super) fn value(&self, subject: Subject<'_>) -> Option<Value> {
        let flag = |node: &Self| node.value(subject).and_then(|value| value.flag());
        Some(match self {
            Self::Literal(value) => value.clone(),
            Self::Service => Value::Text(subject.service.to_owned()),
            Self::Address(part) => Value::Text((*part).to_owned()),
            Self::Metadata => Value::Map(subject.metadata.clone()),
            Self::List(items) => Value::List(items.iter().map(|item| item.value(subject)).collect::<Option<_>>()?),
            Self::Not(one) => Value::Flag(!flag(one)?),
            Self::And(one, other) => Value::Flag(flag(one)? && flag(other)?),
            Self::Or(one, other) => Value::Flag(flag(one)? || flag(other)?),
            Self::Equal(one, other, is_equal) => {
                Value::Flag((one.value(subject)? == other.value(subject)?) == *is_equal)
            }
            Self::Matches(one, regex) => match one.value(subject)? {
                Value::Text(text) => Value::Flag(regex.is_match(&text).ok()?),
                _ => Value::Flag(false),
            },
            Self::Join(one, other) => match (one.value(subject)?, other.value(subject)?) {
                (Value::Number(one), Value::Number(other)) => Value::Number(one.checked_add(other)?),
                (one @ Value::Text(_), other) | (one, other @ Value::Text(_)) => {
                    let text = format!("{}{}", one.shown()?, other.shown()?);
                    (text.len() <= MAX_TEXT).then_some(Value::Text(text))?
                }
                _ => return None,
            },
            Self::Entry(map, key) => match (map.value(subject)?, key.value(subject)?) {
                (Value::Map(map), Value::Text(key)) => map.get(&key).cloned().map_or(Value::Null, Value::Text),
                _ => return None,
            },
            Self::Call(on, method, arguments) => {
                let arguments = arguments.iter().map(|argument| argument.value(subject)).collect::<Option<Vec<_>>>()?;
                call(on.value(subject)?, method, &arguments)?
            }
            Self::Choice(condition, one, other) => if flag(condition)? { one } else { other }.value(subject)?,
            Self::Default(one, other) => match one.value(subject)? {
                Value::Null => other.value(subject)?,
                Value::Text(text) if text.is_empty() => other.value(subject)?,
                value => value,
            },
        })
    }
}

/// Calls a method; `None` if the value has no such method.
fn call(on: Value, method: &str, arguments: &[Value]) -> Option<Value> {
    Some(match (on, method, arguments) {
        (Value::Text(text), "startsWith", [Value::Text(part)]) => Value::Flag(text.starts_with(part)),
        (Value::Text(text), "endsWith", [Value::Text(part)]) => Value::Flag(text.ends_with(part)),
        (Value::Text(text), "contains", [Value::Text(part)]) => Value::Flag(text.contains(part)),
        (Value::Text(text), "equalsIgnoreCase", [Value::Text(other)]) => {
            Value::Flag(text.to_lowercase() == other.to_lowercase())
        }
        (Value::Text(_), "equalsIgnoreCase", [Value::Null]) => Value::Flag(false),
        (Value::Text(text), "replace", [Value::Text(old), Value::Text(new)]) => {
            let count = text.matches(old.as_str()).count();
            let length = (text.len() - count * old.len()).saturating_add(count.saturating_mul(new.len()));
            (length <= MAX_TEXT).then(|| Value::Text(text.replace(old.as_str(), new)))?
        }
        (Value::Text(text), "toLowerCase", []) => Value::Text(text.to_lowercase()),
        (Value::Text(text), "toUpperCase", []) => Value::Text(text.to_uppercase()),
        (Value::Text(text), "toString", []) => Value::Text(text),
        (Value::Text(text), "trim", []) => Value::Text(text.trim().to_owned()),
        (Value::Text(text), "isEmpty", []) => Value::Flag(text.is_empty()),
        (Value::Map(map), "isEmpty", []) => Value::Flag(map.is_empty()),
        (Value::Map(map), "containsKey", [Value::Text(key)]) => Value::Flag(map.contains_key(key)),
        (Value::Map(map), "get", [Value::Text(key)]) => map.get(key).cloned().map_or(Value::Null, Value::Text),
        (Value::List(items), "contains", [item]) => Value::Flag(items.contains(item)),
        (on @ (Value::Text(_) | Value::Number(_) | Value::Flag(_)), "equals", [other]) => Value::Flag(on == *other),
        _ => return None,
    })
}

impl Value {
    /// Returns the value as Spring converts it to a boolean.
    pub(super) fn flag(&self) -> Option<bool> {
        match self {
            Self::Flag(flag) => Some(*flag),
            Self::Text(text) => match text.trim().to_ascii_lowercase().as_str() {
                "true" | "on" | "yes" | "1" => Some(true),
                "false" | "off" | "no" | "0" => Some(false),
                _ => None,
            },
            _ => None,
        }
    }

    /// Returns the value as a text.
    pub(super) fn text(self) -> Option<String> {
        match self {
            Self::Text(text) => Some(text),
            Self::Flag(flag) => Some(flag.to_string()),
            Self::Number(number) => Some(number.to_string()),
            Self::Null | Self::List(_) | Self::Map(_) => None,
        }
    }

    /// Returns the value as a part of a joined text, in which Spring writes `null`.
    fn shown(self) -> Option<String> {
        if self == Self::Null { Some("null".to_owned()) } else { self.text() }
    }
}
