//! Removal of members from JSON text.
//!
//! The whole text is validated first; after that, splitting it into tokens is enough. Remaining tokens are copied byte for
//! byte: numbers keep their digits and members their order, which a tree of values would not guarantee. Only white space
//! between tokens is removed. Nothing recurses, so nesting is not limited.

use std::borrow::Cow;

use serde::de::IgnoredAny;
use thiserror::Error;

/// An invalid JSON text.
#[derive(Debug, Error)]
#[error("invalid JSON")]
pub(super) struct InvalidJson;

/// Returns `text` without the members `names` of the top-level object, or of all objects if `recursively` is true.
pub(super) fn remove_members(text: &[u8], names: &[Box<str>], recursively: bool) -> Result<Vec<u8>, InvalidJson> {
    let text = std::str::from_utf8(text).map_err(|_| InvalidJson)?;
    serde_json::from_str::<IgnoredAny>(text).map_err(|_| InvalidJson)?;
    let mut tokens = Tokens { rest: text };
    let mut out = String::with_capacity(text.len());
    let mut open: Vec<Container> = Vec::new();
    let mut position = Position::Value;
    while let Some(token) = tokens.next() {
        match token {
            "," => position = open.last().map_or(Position::Value, Container::next_position),
            "}" | "]" => {
                open.pop();
                out.push_str(token);
            }
            _ if position == Position::Name => {
                tokens.next(); // the colon
                if (recursively || open.len() == 1) && is_named(token, names) {
                    tokens.skip_value();
                    continue;
                }
                write_comma(&mut open, &mut out);
                out.push_str(token);
                out.push(':');
                position = Position::MemberValue;
            }
            _ => {
                if position == Position::Value {
                    write_comma(&mut open, &mut out);
                }
                out.push_str(token);
                if matches!(token, "{" | "[") {
                    let container = Container { is_object: token == "{", is_empty: true };
                    position = container.next_position();
                    open.push(container);
                }
            }
        }
    }
    Ok(out.into_bytes())
}

/// An object or array that is not closed yet.
struct Container {
    is_object: bool,
    /// True until a member or element is written.
    is_empty: bool,
}

impl Container {
    fn next_position(&self) -> Position {
        if self.is_object { Position::Name } else { Position::Value }
    }
}

/// The position of the next token.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Position {
    /// A member's name, or the end of the object.
    Name,
    /// A member's value.
    MemberValue,
    /// An element of an array, the end of the array, or the top-level value.
    Value,
}

/// Writes a comma, unless the next member or element is the first.
fn write_comma(open: &mut [Container], out: &mut String) {
    if let Some(container) = open.last_mut()
        && !std::mem::replace(&mut container.is_empty, false)
    {
        out.push(',');
    }
}

/// Returns true if the string `token`, quotes included, is one of `names`. It may contain escapes.
fn is_named(token: &str, names: &[Box<str>]) -> bool {
    let name: Cow<'_, str> = if token.contains('\\') {
        match serde_json::from_str::<String>(token) {
            Ok(name) => name.into(),
            Err(_) => return false, // half a surrogate pair equals no name
        }
    } else {
        token.trim_matches('"').into()
    };
    names.iter().any(|other| **other == *name)
}

/// Iterator over the tokens of a JSON text: strings, numbers, literals and single punctuation characters.
struct Tokens<'t> {
    rest: &'t str,
}

impl<'t> Tokens<'t> {
    fn next(&mut self) -> Option<&'t str> {
        let text = self.rest.trim_ascii_start();
        let first = text.bytes().next()?;
        let end = match first {
            b'"' => string_end(text),
            b'{' | b'}' | b'[' | b']' | b',' | b':' => 1,
            _ => text
                .bytes()
                .position(|b| matches!(b, b'}' | b']' | b',') || b.is_ascii_whitespace())
                .unwrap_or(text.len()),
        };
        let (token, rest) = text.split_at(end);
        self.rest = rest;
        Some(token)
    }

    fn skip_value(&mut self) {
        let mut depth = 0_usize;
        while let Some(token) = self.next() {
            match token {
                "{" | "[" => depth += 1,
                "}" | "]" => depth = depth.saturating_sub(1),
                _ => {}
            }
            if depth == 0 {
                return;
            }
        }
    }
}

/// Returns the length of the string at the start of `text`, quotes included.
fn string_end(text: &str) -> usize {
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use proptest::collection::vec;
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    fn removed(text: &str, names: &[&str], recursively: bool) -> String {
        let names: Vec<Box<str>> = names.iter().map(|name| (*name).into()).collect();
        String::from_utf8(remove_members(text.as_bytes(), &names, recursively).unwrap()).unwrap()
    }

    #[test]
    fn members_are_removed_and_other_text_is_unchanged() {
        for (text, recursively, expected) in [
            (r#"{"a":1,"b":2,"c":3}"#, false, r#"{"b":2,"c":3}"#),
            (r#"{"b":2,"a":1}"#, false, r#"{"b":2}"#),
            (r#" { "a" : { "x" : [ 1 , "}" ] } , "b" : [ ] } "#, false, r#"{"b":[]}"#),
            (r#"{"a":1}"#, false, "{}"),
            (r#"{"a":1,"a":2,"b":{"a":3}}"#, false, r#"{"b":{"a":3}}"#),
            (r#"{"b":{"a":3},"c":[{"a":1,"d":1.10},{"a":{}}]}"#, true, r#"{"b":{},"c":[{"d":1.10},{}]}"#),
            (r#"[{"a":1,"b":12345678901234567890123}]"#, true, r#"[{"b":12345678901234567890123}]"#),
            (r#"[{"a":1}]"#, false, r#"[{"a":1}]"#),
            (r#"{"\u0061":1,"b\"a":"a","c":"\ud83d\ude00é"}"#, false, r#"{"b\"a":"a","c":"\ud83d\ude00é"}"#),
            (r#""a""#, true, r#""a""#),
            ("null", true, "null"),
            ("[1, 2 ,[ ] ,{}]", true, "[1,2,[],{}]"),
        ] {
            assert_eq!(removed(text, &["a"], recursively), expected, "{text}");
        }
    }

    #[test]
    fn invalid_json_is_an_error() {
        for text in ["", "{", r#"{"a":}"#, "{'a':1}", "[1,]", r#"{"a":1}x"#, "NaN"] {
            assert!(remove_members(text.as_bytes(), &["a".into()], true).is_err(), "{text}");
        }
        assert!(remove_members(b"\"\xff\"", &[], true).is_err());
    }

    #[test]
    fn nesting_is_not_limited() {
        let text = format!(r#"{}{{"a":1}}{}"#, "[".repeat(100_000), "]".repeat(100_000));
        assert_eq!(removed(&text, &["a"], true).len(), 200_002);
    }

    fn json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            "[a\"\\\\{}\\[\\],: é\u{7}]{0,4}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 4, |inner| {
            let name = "[ab\"\\\\]{1,2}";
            prop_oneof![
                vec(inner.clone(), 0..4).prop_map(Value::from),
                vec((name, inner), 0..4).prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    fn by_tree(value: &mut Value, recursively: bool) {
        if let Value::Object(members) = value {
            members.retain(|name, _| name != "a" && name != "b\"");
        }
        if recursively {
            match value {
                Value::Object(members) => members.values_mut().for_each(|value| by_tree(value, true)),
                Value::Array(items) => items.iter_mut().for_each(|value| by_tree(value, true)),
                _ => {}
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn the_result_equals_that_of_a_tree_of_values(value in json(), recursively: bool, pretty: bool) {
            let text = if pretty { format!("{value:#}") } else { value.to_string() };
            let mut expected = value;
            by_tree(&mut expected, recursively);
            prop_assert_eq!(removed(&text, &["a", "b\""], recursively), expected.to_string());
        }
    }
}
