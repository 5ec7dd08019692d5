//! Query edits.

use std::collections::HashMap;

use http::{Extensions, Request, Uri};

use super::error::{ApplyError, EditError};
use super::path::set_path_and_query;
use super::template::Template;
use crate::percent;

/// An edit of a request's query.
#[derive(Clone, Debug)]
pub(super) enum QueryEdit {
    /// Appends `name=value`; the name is encoded.
    Add { name: String, value: Template },
    /// Removes all parameters of the name.
    Remove { name: Vec<u8> },
    /// Replaces all parameters of the name by one at the end.
    Rewrite { name: Vec<u8>, value: Vec<u8> },
}

/// A decoded `name=value` or `name`.
struct Parameter {
    name: Vec<u8>,
    value: Option<Vec<u8>>,
}

// === impl QueryEdit ===

impl QueryEdit {
    pub(super) fn add(name: &str, value: &str) -> Result<Self, EditError> {
        let value = Template::parse(value).map_text(|text| Ok(encode(text)))?;
        Ok(Self::Add { name: encode(required(name)?), value })
    }

    pub(super) fn variables(&self) -> Vec<&str> {
        match self {
            Self::Add { value, .. } => value.variables(),
            Self::Remove { .. } | Self::Rewrite { .. } => Vec::new(),
        }
    }

    pub(super) fn apply<B>(&self, request: &mut Request<B>) -> Result<(), ApplyError> {
        if !request.uri().path().starts_with('/') {
            return Ok(());
        }
        let query = request.uri().query().unwrap_or_default();
        let edited = match self {
            Self::Add { name, value } => Some(append(query, name, value, request.extensions())?),
            Self::Remove { name } => without(query, name).map(|rest| serialize(&rest)),
            Self::Rewrite { name, value } => without(query, name).map(|mut rest| {
                rest.push(Parameter { name: name.clone(), value: Some(value.clone()) });
                serialize(&rest)
            }),
        };
        match edited {
            Some(query) => replace_query(request.uri_mut(), &query),
            None => Ok(()),
        }
    }
}

pub(super) fn required(name: &str) -> Result<&str, EditError> {
    if name.is_empty() { Err(EditError::NamelessParameter) } else { Ok(name) }
}

fn encode(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len());
    percent::encode_query(text, &mut out);
    String::from_utf8_lossy(&out).into_owned()
}

/// Appends a parameter to `query`. The other parameters are unchanged.
fn append(query: &str, name: &str, value: &Template, extensions: &Extensions) -> Result<Vec<u8>, ApplyError> {
    let mut out = Vec::with_capacity(query.len() + name.len() + 16);
    out.extend_from_slice(query.as_bytes());
    if !query.is_empty() && !query.ends_with('&') {
        out.push(b'&');
    }
    out.extend_from_slice(name.as_bytes());
    out.push(b'=');
    // A variable is one value: `&` and `=` in it are encoded.
    value.expand_with(extensions, &mut out, |value, out| {
        percent::encode_strictly(percent::decode(value.as_bytes(), false), out);
    })?;
    Ok(out)
}

/// Returns the parameters of `query` without those named `name`; `None` if there are none of that name.
fn without(query: &str, name: &[u8]) -> Option<Vec<Parameter>> {
    let all = || parameters(query);
    all().any(|parameter| parameter.name == name).then(|| all().filter(|other| other.name != name).collect())
}

/// Parses a query as Spring does: empty parameters and an `=` without a name before it are ignored.
fn parameters(query: &str) -> impl Iterator<Item = Parameter> + '_ {
    let decoded = |text: &str| percent::decode(text.as_bytes(), true).collect();
    query.split('&').map(|text| text.trim_start_matches('=')).filter(|text| !text.is_empty()).map(
        move |text| match text.split_once('=') {
            Some((name, value)) => Parameter { name: decoded(name), value: Some(decoded(value)) },
            None => Parameter { name: decoded(text), value: None },
        },
    )
}

/// Serializes `parameters`. Those of equal names are side by side, at the position of the first of them.
fn serialize(parameters: &[Parameter]) -> Vec<u8> {
    let mut positions = HashMap::new();
    let mut groups: Vec<Vec<&Parameter>> = Vec::new();
    for parameter in parameters {
        let position = *positions.entry(&*parameter.name).or_insert(groups.len());
        match groups.get_mut(position) {
            Some(equals) => equals.push(parameter),
            None => groups.push(vec![parameter]),
        }
    }
    let mut out = Vec::new();
    for parameter in groups.into_iter().flatten() {
        if !out.is_empty() {
            out.push(b'&');
        }
        percent::encode_strictly(parameter.name.iter().copied(), &mut out);
        if let Some(value) = &parameter.value {
            out.push(b'=');
            percent::encode_strictly(value.iter().copied(), &mut out);
        }
    }
    out
}

/// Replaces the URI's query. An empty one is removed.
fn replace_query(uri: &mut Uri, query: &[u8]) -> Result<(), ApplyError> {
    let mut new = uri.path().as_bytes().to_vec();
    if !query.is_empty() {
        new.push(b'?');
        new.extend_from_slice(query);
    }
    set_path_and_query(uri, new)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::*;

    fn edited(edit: &QueryEdit, uri: &str) -> String {
        let mut request = Request::builder().uri(uri).body(()).unwrap();
        edit.apply(&mut request).unwrap();
        request.uri().to_string()
    }

    #[test]
    fn adding_a_parameter_does_not_change_the_others() {
        for (name, value, uri, expected) in [
            ("red", "blue", "/a", "/a?red=blue"),
            ("red", "blue", "/a?", "/a?red=blue"),
            ("red", "blue", "/a?x=%20+&red=1", "/a?x=%20+&red=1&red=blue"),
            ("red", "blue", "/a?x&", "/a?x&red=blue"),
            ("red", "a b\u{e9}#%20", "/a", "/a?red=a%20b%C3%A9%23%20"),
            ("red", "1&green=2", "/a", "/a?red=1&green=2"),
            ("red", "blue", "*", "*"),
        ] {
            assert_eq!(edited(&QueryEdit::add(name, value).unwrap(), uri), expected, "{name}={value} to {uri}");
        }
    }

    #[test]
    fn remaining_parameters_are_encoded_again_with_equal_names_side_by_side() {
        let remove = QueryEdit::Remove { name: b"red".to_vec() };
        for (uri, expected) in [
            ("/a", "/a"),
            ("/a?", "/a?"),
            ("/a?b=1+&&=c", "/a?b=1+&&=c"),
            ("/a?red=1", "/a"),
            ("/a?red", "/a"),
            ("/a?red=1&red=2&b=3", "/a?b=3"),
            ("/a?b=1&c=2&red=3&b=4", "/a?b=1&b=4&c=2"),
            ("/a?%72ed=1&b=a+b%2f%zz", "/a?b=a%20b%2F%25zz"),
            ("/a?red=1&b&c=&d=e=f&&=g", "/a?b&c=&d=e%3Df&g"),
            ("/a?red=1&b=%ff%C3%A9", "/a?b=%FF%C3%A9"),
            ("/a?Red=1&red=2", "/a?Red=1"),
        ] {
            assert_eq!(edited(&remove, uri), expected, "{uri}");
        }
    }

    #[test]
    fn the_time_is_linear_in_the_number_of_names() {
        // The maximum length of a URI.
        let query: Vec<String> = (0..13_000).map(|number| format!("{number:x}")).collect();
        let start = std::time::Instant::now();
        edited(&QueryEdit::Remove { name: b"0".to_vec() }, &format!("/a?{}", query.join("&")));
        assert!(start.elapsed() < std::time::Duration::from_secs(1), "{:?}", start.elapsed());
    }

    #[test]
    fn a_rewritten_parameter_occurs_once_at_the_end() {
        let rewrite = QueryEdit::Rewrite { name: b"red".to_vec(), value: b"a b&{c}".to_vec() };
        for (uri, expected) in [
            ("/a?b=%2f", "/a?b=%2f"),
            ("/a?red=1&b=%2f&red=2", "/a?b=%2F&red=a%20b%26%7Bc%7D"),
            ("/a?red", "/a?red=a%20b%26%7Bc%7D"),
        ] {
            assert_eq!(edited(&rewrite, uri), expected, "{uri}");
        }
    }
}
