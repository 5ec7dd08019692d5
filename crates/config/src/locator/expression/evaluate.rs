//! Values of expressions. An expression without a value, such as a method of `null`, is an exception in Spring.

use crate::locator::expression::{Method, Node, Subject, Value};

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
                call(on.value(subject)?, *method, &arguments)?
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
fn call(on: Value, method: Method, arguments: &[Value]) -> Option<Value> {
    Some(match (on, method, arguments) {
        (Value::Text(text), Method::StartsWith, [Value::Text(part)]) => Value::Flag(text.starts_with(part)),
        (Value::Text(text), Method::EndsWith, [Value::Text(part)]) => Value::Flag(text.ends_with(part)),
        (Value::Text(text), Method::Contains, [Value::Text(part)]) => Value::Flag(text.contains(part)),
        (Value::Text(text), Method::EqualsIgnoreCase, [Value::Text(other)]) => {
            Value::Flag(text.to_lowercase() == other.to_lowercase())
        }
        (Value::Text(_), Method::EqualsIgnoreCase, [Value::Null]) => Value::Flag(false),
        (Value::Text(text), Method::Replace, [Value::Text(old), Value::Text(new)]) => {
            let count = text.matches(old.as_str()).count();
            let length = (text.len() - count * old.len()).saturating_add(count.saturating_mul(new.len()));
            (length <= MAX_TEXT).then(|| Value::Text(text.replace(old.as_str(), new)))?
        }
        (Value::Text(text), Method::ToLowerCase, []) => Value::Text(text.to_lowercase()),
        (Value::Text(text), Method::ToUpperCase, []) => Value::Text(text.to_uppercase()),
        (Value::Text(text), Method::ToString, []) => Value::Text(text),
        (Value::Text(text), Method::Trim, []) => Value::Text(text.trim().to_owned()),
        (Value::Text(text), Method::IsEmpty, []) => Value::Flag(text.is_empty()),
        (Value::Map(map), Method::IsEmpty, []) => Value::Flag(map.is_empty()),
        (Value::Map(map), Method::ContainsKey, [Value::Text(key)]) => Value::Flag(map.contains_key(key)),
        (Value::Map(map), Method::Get, [Value::Text(key)]) => map.get(key).cloned().map_or(Value::Null, Value::Text),
        (Value::List(items), Method::Contains, [item]) => Value::Flag(items.contains(item)),
        (on @ (Value::Text(_) | Value::Number(_) | Value::Flag(_)), Method::Equals, [other]) => {
            Value::Flag(on == *other)
        }
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
