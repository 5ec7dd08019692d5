//! `Query`: the parameters of the query.

use std::borrow::Cow;

use super::super::normal::hex;
use super::regexp::Regexp;

/// Whether a value of `param` matches; without an expression, whether the parameter is there.
pub(super) fn matches(query: &str, param: &str, regexp: Option<&Regexp>) -> bool {
    values(query, param).any(|value| regexp.is_none_or(|regexp| value.is_some_and(|value| regexp.matches(&value))))
}

/// The first value of `param`.
pub(super) fn first<'q>(query: &'q str, param: &str) -> Option<Cow<'q, str>> {
    values(query, param).next().flatten()
}

/// The values of `param`, decoded; one without `=` has none.
pub(super) fn values<'q>(query: &'q str, param: &str) -> impl Iterator<Item = Option<Cow<'q, str>>> {
    query.split('&').filter_map(move |pair| {
        let (name, value) = pair.split_once('=').map_or((pair, None), |(name, value)| (name, Some(value)));
        (!name.is_empty() && decoded(name) == param).then(|| value.map(decoded))
    })
}

/// A name or value as `application/x-www-form-urlencoded` means it. A `%` that starts no escape stands for itself.
fn decoded(text: &str) -> Cow<'_, str> {
    if !text.bytes().any(|byte| matches!(byte, b'%' | b'+')) {
        return Cow::Borrowed(text);
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, others @ ..] = rest {
        let escaped = match others {
            [high, low, after @ ..] if *first == b'%' => {
                hex(*high).zip(hex(*low)).map(|(high, low)| (high << 4 | low, after))
            }
            _ => None,
        };
        let plain = if *first == b'+' { b' ' } else { *first };
        let (byte, after) = escaped.unwrap_or((plain, others));
        bytes.push(byte);
        rest = after;
    }
    Cow::Owned(String::from_utf8_lossy(&bytes).into_owned())
}
