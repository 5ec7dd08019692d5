//! Custom bodies of denials.

use http::HeaderValue;

/// Body with the placeholders `{retry-after}`, `{limit}`, `{remaining}`, `{rule}` and `{route}`. Other braces are text.
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
}

const PLACEHOLDERS: [(&str, Placeholder); 5] = [
    ("{retry-after}", Placeholder::RetryAfter),
    ("{limit}", Placeholder::Limit),
    ("{remaining}", Placeholder::Remaining),
    ("{rule}", Placeholder::Rule),
    ("{route}", Placeholder::Route),
];

impl Template {
    /// Parses the body `text` of the media type `content_type`. Returns `None` if that is not a valid field value.
    #[must_use]
    pub fn parse(content_type: &str, text: &str) -> Option<Self> {
        let essence = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        let escape = if essence == "application/json" || essence.ends_with("+json") {
            Escape::Json
        } else if essence == "text/html" || essence.ends_with("xml") {
            Escape::Markup
        } else {
            Escape::Nothing
        };
        let mut segments = Vec::new();
        let mut rest = text;
        let next = |rest: &str| {
            let positions =
                PLACEHOLDERS.iter().filter_map(|(name, which)| Some((rest.find(name)?, name.len(), *which)));
            positions.min_by_key(|(at, ..)| *at)
        };
        while let Some((at, length, placeholder)) = next(rest) {
            segments.extend([Segment::Text(rest[..at].to_owned()), Segment::Placeholder(placeholder)]);
            rest = &rest[at + length..];
        }
        segments.push(Segment::Text(rest.to_owned()));
        Some(Self { content_type: HeaderValue::from_str(content_type.trim()).ok()?, escape, segments })
    }
}
