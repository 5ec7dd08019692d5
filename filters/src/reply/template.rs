//! Custom bodies of denials.

use http::HeaderValue;
use thiserror::Error;

/// Body with the placeholders `{retry-after}`, `{limit}`, `{remaining}`, `{rule}`, `{route}`, `{plan}` and `{key}`, also with
/// spaces, as in `{ limit }`, in small letters. Other braces are text, unless there is a name alone between them.
///
/// In JSON (`application/json`, `…+json`), names are escaped for use within a string, and an unknown `retry-after` is
/// `null`. In HTML and XML, names are escaped as text. Elsewhere nothing is escaped. Outside of JSON, an unknown
/// `retry-after` is empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    pub(super) content_type: HeaderValue,
    pub(super) escape: Escape,
    pub(super) segments: Vec<Segment>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Escape {
    Json,
    Markup,
    Nothing,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Segment {
    Text(String),
    Placeholder(Placeholder),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Placeholder {
    RetryAfter,
    Limit,
    Remaining,
    Rule,
    Route,
    Plan,
    Key,
}

/// Reason why a body cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TemplateError {
    /// The media type is not a valid field value.
    #[error("`{0}` is not a valid `Content-Type`")]
    ContentType(String),
    /// There is no placeholder of this name.
    #[error("`{{{0}}}` is no placeholder")]
    Placeholder(String),
    /// The placeholder of this name has no closing brace.
    #[error("`{{{0}` lacks its closing brace")]
    Unclosed(String),
}

const PLACEHOLDERS: [(&str, Placeholder); 7] = [
    ("retry-after", Placeholder::RetryAfter),
    ("limit", Placeholder::Limit),
    ("remaining", Placeholder::Remaining),
    ("rule", Placeholder::Rule),
    ("route", Placeholder::Route),
    ("plan", Placeholder::Plan),
    ("key", Placeholder::Key),
];

/// Returns the first name in braces, with the text around it. Spaces may surround the name of a placeholder.
fn next(text: &str) -> Option<(&str, &str, &str)> {
    text.match_indices('{').find_map(|(at, _)| {
        let (inside, after) = text[at + 1..].split_once('}')?;
        let name = inside.trim_matches(' ');
        let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic())
            && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c));
        (is_name && (name == inside || is_known(name))).then_some((&text[..at], name, after))
    })
}

/// Returns true for the name of a placeholder. One in capitals is an error, not text.
fn is_known(name: &str) -> bool {
    Template::placeholders().any(|placeholder| placeholder.eq_ignore_ascii_case(&name.replace('_', "-")))
}

/// Returns the name of a placeholder without its closing brace in the same text between quotes. `{key: 1}` is text.
fn unclosed(text: &str) -> Option<&str> {
    text.match_indices('{').find_map(|(at, _)| {
        let inside = text[at + 1..].trim_start_matches(' ');
        let end = inside.find(|c: char| !(c.is_ascii_alphanumeric() || "-_".contains(c))).unwrap_or(inside.len());
        let (name, after) = inside.split_at(end);
        let ends = || after.find(['{', '}', '"', '\'', '\n']).is_some_and(|sign| after[sign..].starts_with('}'));
        (is_known(name) && !after.starts_with(':') && !ends()).then_some(name)
    })
}

impl Template {
    /// Returns the names of all placeholders.
    pub fn placeholders() -> impl Iterator<Item = &'static str> {
        PLACEHOLDERS.iter().map(|(name, _)| *name)
    }

    /// Parses the body `text` of the media type `content_type`.
    ///
    /// # Errors
    /// The media type is not a valid field value, or a placeholder is not known or not closed: `{name}`, of letters, digits, `-`
    /// and `_`.
    pub fn parse(content_type: &str, text: &str) -> Result<Self, TemplateError> {
        let essence = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        let escape = if essence == "application/json" || essence.ends_with("+json") {
            Escape::Json
        } else if essence == "text/html" || essence.ends_with("xml") {
            Escape::Markup
        } else {
            Escape::Nothing
        };
        if let Some(name) = unclosed(text) {
            return Err(TemplateError::Unclosed(name.to_owned()));
        }
        let mut segments = Vec::new();
        let mut rest = text;
        while let Some((before, name, after)) = next(rest) {
            let placeholder = PLACEHOLDERS.iter().find(|(placeholder, _)| *placeholder == name);
            let (_, placeholder) = placeholder.ok_or_else(|| TemplateError::Placeholder(name.to_owned()))?;
            segments.extend([Segment::Text(before.to_owned()), Segment::Placeholder(*placeholder)]);
            rest = after;
        }
        segments.push(Segment::Text(rest.to_owned()));
        let field = HeaderValue::from_str(content_type.trim());
        let content_type = field.map_err(|_| TemplateError::ContentType(content_type.to_owned()))?;
        Ok(Self { content_type, escape, segments })
    }
}
