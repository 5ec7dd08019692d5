//! Members taken out of a JSON text.
//!
//! The text is checked as a whole first, so that what follows only has to tell its tokens apart. Everything that stays is
//! copied byte for byte: numbers keep their digits and members their order, which a tree of values would not promise.
//! Only space between tokens is left out. Nothing recurses, so the depth of a text does no harm.

use std::borrow::Cow;

use serde::de::IgnoredAny;
use thiserror::Error;

/// A text that is no JSON.
#[derive(Debug, Error)]
#[error("the text is no JSON")]
pub(super) struct NotJson;

/// `text` without the members called one of `names`: those of the object that it is, or at any depth.
pub(super) fn strip(text: &[u8], names: &[Box<str>], recursively: bool) -> Result<Vec<u8>, NotJson> {
    let text = std::str::from_utf8(text).map_err(|_| NotJson)?;
    serde_json::from_str::<IgnoredAny>(text).map_err(|_| NotJson)?;
    let mut tokens = Tokens { rest: text };
    let mut out = String::with_capacity(text.len());
    let mut open: Vec<Container> = Vec::new();
    let mut place = Place::Value;
    while let Some(token) = tokens.next() {
        match token {
            "," => place = open.last().map_or(Place::Value, Container::next_place),
            "}" | "]" => {
                open.pop();
                out.push_str(token);
            }
            _ if place == Place::Name => {
                tokens.next(); // the colon
                if (recursively || open.len() == 1) && is_named(token, names) {
                    tokens.skip_value();
                    continue;
                }
                separate(&mut open, &mut out);
                out.push_str(token);
                out.push(':');
                place = Place::Member;
            }
            _ => {
                if place == Place::Value {
                    separate(&mut open, &mut out);
                }
                out.push_str(token);
                if matches!(token, "{" | "[") {
                    let container = Container { is_object: token == "{", is_empty: true };
                    place = container.next_place();
                    open.push(container);
                }
            }
        }
    }
    Ok(out.into_bytes())
}

/// An object or an array that has not ended.
struct Container {
    is_object: bool,
    /// Nothing of it has been kept yet.
    is_empty: bool,
}

impl Container {
    fn next_place(&self) -> Place {
        if self.is_object { Place::Name } else { Place::Value }
    }
}

/// What the next token is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// A member's name, or the object's end.
    Name,
    /// A member's value.
    Member,
    /// An element of an array, its end, or the whole.
    Value,
}

/// A comma, unless what follows is the first that is kept.
fn separate(open: &mut [Container], out: &mut String) {
    if let Some(container) = open.last_mut()
        && !std::mem::replace(&mut container.is_empty, false)
    {
        out.push(',');
    }
}

/// Whether the string `token`, quotes included, is one of `names`. A name may be written with escapes.
fn is_named(token: &str, names: &[Box<str>]) -> bool {
    let name: Cow<'_, str> = if token.contains('\\') {
        match serde_json::from_str::<String>(token) {
            Ok(name) => name.into(),
            Err(_) => return false, // half a surrogate pair: nobody's name
        }
    } else {
        token.trim_matches('"').into()
    };
    names.iter().any(|wanted| **wanted == *name)
}

/// The tokens of a JSON text: strings, numbers and words whole, all else one character each.
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

/// Where the string that `text` begins with ends, its quotes included.
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

    fn stripped(text: &str, names: &[&str], recursively: bool) -> String {
        let names: Vec<Box<str>> = names.iter().map(|name| (*name).into()).collect();
        String::from_utf8(strip(text.as_bytes(), &names, recursively).unwrap()).unwrap()
    }

    #[test]
    fn members_go_and_the_rest_stays_as_it_was() {
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
            assert_eq!(stripped(text, &["a"], recursively), expected, "{text}");
        }
    }

    #[test]
    fn what_is_no_json_is_refused() {
        for text in ["", "{", r#"{"a":}"#, "{'a':1}", "[1,]", r#"{"a":1}x"#, "NaN"] {
            assert!(strip(text.as_bytes(), &["a".into()], true).is_err(), "{text}");
        }
        assert!(strip(b"\"\xff\"", &[], true).is_err());
    }

    #[test]
    fn depth_does_no_harm() {
        let text = format!(r#"{}{{"a":1}}{}"#, "[".repeat(100_000), "]".repeat(100_000));
        assert_eq!(stripped(&text, &["a"], true).len(), 200_002);
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
        fn it_does_what_a_tree_of_values_does(value in json(), recursively: bool, pretty: bool) {
            let text = if pretty { format!("{value:#}") } else { value.to_string() };
            let mut expected = value;
            by_tree(&mut expected, recursively);
            prop_assert_eq!(stripped(&text, &["a", "b\""], recursively), expected.to_string());
        }
    }
}
