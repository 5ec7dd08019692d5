//! Text with `{variables}`.

use http::{Extensions, HeaderValue};

use super::error::{ApplyError, EditError};
use crate::context::RequestContext;
use crate::percent;

/// A sequence of literal text and variables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Template {
    pieces: Vec<Piece>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(String),
    Variable(String),
}

/// A header value: constant, or expanded for each request.
#[derive(Clone, Debug)]
pub(super) enum Value {
    Constant(HeaderValue),
    Template(Template),
}

// === impl Template ===

impl Template {
    pub(super) fn parse(text: &str) -> Self {
        let (mut pieces, mut literal, mut rest) = (Vec::new(), String::new(), text);
        while let Some(open) = rest.find('{') {
            literal.push_str(&rest[..open]);
            match parse_variable(&rest[open + 1..]) {
                Some((name, after)) => {
                    if !literal.is_empty() {
                        pieces.push(Piece::Text(std::mem::take(&mut literal)));
                    }
                    pieces.push(Piece::Variable(name.to_owned()));
                    rest = after;
                }
                None => {
                    literal.push('{');
                    rest = &rest[open + 1..];
                }
            }
        }
        literal.push_str(rest);
        if !literal.is_empty() {
            pieces.push(Piece::Text(literal));
        }
        Self { pieces }
    }

    /// Replaces each literal text by the result of `map`.
    pub(super) fn map_text(mut self, map: impl Fn(&str) -> Result<String, EditError>) -> Result<Self, EditError> {
        for piece in &mut self.pieces {
            if let Piece::Text(text) = piece {
                *text = map(text)?;
            }
        }
        Ok(self)
    }

    pub(super) fn has_variables(&self) -> bool {
        !self.variables().is_empty()
    }

    /// Returns the names of the variables; a name may occur several times.
    pub(super) fn variables(&self) -> Vec<&str> {
        let variables = self.pieces.iter().filter_map(|piece| match piece {
            Piece::Variable(name) => Some(name.as_str()),
            Piece::Text(_) => None,
        });
        variables.collect()
    }

    /// Appends the text with the request's variables, encoded as in the path.
    pub(super) fn expand(&self, extensions: &Extensions, out: &mut Vec<u8>) -> Result<(), ApplyError> {
        self.expand_with(extensions, out, |value, out| out.extend_from_slice(value.as_bytes()))
    }

    /// Appends the text with the request's variables, decoded.
    fn expand_decoded(&self, extensions: &Extensions, out: &mut Vec<u8>) -> Result<(), ApplyError> {
        self.expand_with(extensions, out, |value, out| out.extend(percent::decode(value.as_bytes(), false)))
    }

    /// Appends the text; `append` writes the value of each variable.
    pub(super) fn expand_with(
        &self,
        extensions: &Extensions,
        out: &mut Vec<u8>,
        append: impl Fn(&str, &mut Vec<u8>),
    ) -> Result<(), ApplyError> {
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => out.extend_from_slice(text.as_bytes()),
                Piece::Variable(name) => {
                    let context = extensions.get::<RequestContext>();
                    append(context.and_then(|c| c.variable(name)).ok_or(ApplyError::UnknownVariable)?, out);
                }
            }
        }
        Ok(())
    }
}

/// Parses `name}` or `name:regex}`. Returns the name and the text after it; `None` without a name.
fn parse_variable(text: &str) -> Option<(&str, &str)> {
    let end = text.find(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '-' | '.'))).filter(|end| *end > 0)?;
    let (name, rest) = text.split_at(end);
    if let Some(after) = rest.strip_prefix('}') {
        return Some((name, after));
    }
    // Braces nest in a regex: `{id:[0-9]{4}}`.
    let regex = rest.strip_prefix(':')?;
    let mut depth = 1;
    for (at, c) in regex.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some((name, &regex[at + 1..]));
        }
    }
    None
}

// === impl Value ===

impl Value {
    /// Parses the value `text` of the header `name`. The name is used in the error only.
    pub(super) fn parse(name: &str, text: &str) -> Result<Self, EditError> {
        let constant = HeaderValue::from_bytes(text.as_bytes()).map_err(|_| EditError::HeaderValue(name.to_owned()))?;
        let template = Template::parse(text);
        Ok(if template.has_variables() { Self::Template(template) } else { Self::Constant(constant) })
    }

    pub(super) fn needs_variables(&self) -> bool {
        matches!(self, Self::Template(_))
    }

    pub(super) fn variables(&self) -> Vec<&str> {
        match self {
            Self::Constant(_) => Vec::new(),
            Self::Template(template) => template.variables(),
        }
    }

    pub(super) fn expand(&self, extensions: &Extensions) -> Result<HeaderValue, ApplyError> {
        match self {
            Self::Constant(value) => Ok(value.clone()),
            Self::Template(template) => {
                let mut value = Vec::new();
                template.expand_decoded(extensions, &mut value)?;
                // A decoded line break would let the client add headers.
                HeaderValue::try_from(value).map_err(|_| ApplyError::BadField)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::*;

    #[test]
    fn braces_without_a_name_are_text() {
        let text = |t: &str| Piece::Text(t.to_owned());
        let var = |t: &str| Piece::Variable(t.to_owned());
        for (template, pieces) in [
            ("", vec![]),
            ("plain", vec![text("plain")]),
            ("{a}", vec![var("a")]),
            ("x{a}y{b-1}", vec![text("x"), var("a"), text("y"), var("b-1")]),
            ("{id:[0-9]{4}}!", vec![var("id"), text("!")]),
            (r#"{"a":{"b":1}}"#, vec![text(r#"{"a":{"b":1}}"#)]),
            ("{", vec![text("{")]),
            ("{}", vec![text("{}")]),
            ("{a", vec![text("{a")]),
            ("{a:x", vec![text("{a:x")]),
            ("{{a}}", vec![text("{"), var("a"), text("}")]),
        ] {
            assert_eq!(Template::parse(template).pieces, pieces, "{template}");
        }
    }
}
