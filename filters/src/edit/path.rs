//! Path edits.

use http::uri::PathAndQuery;
use http::{Request, Uri};
use tollgate_routing::check_made;

use super::error::{ApplyError, EditError};
use super::rewrite::Rewrite;
use super::template::Template;
use crate::context::{ReceivedPath, RequestContext};
use crate::percent;

/// An edit of a request's path.
#[derive(Clone, Debug)]
pub(super) enum PathEdit {
    Strip { segments: usize },
    Prefix(Template),
    Set(Template),
    Rewrite(Box<Rewrite>),
}

/// Parses a configured path: text, which is encoded for a URI, and variables.
pub(super) fn parse_template(path: &str) -> Result<Template, EditError> {
    if !path.starts_with(['/', '{']) {
        return Err(EditError::RelativePath(path.to_owned()));
    }
    Template::parse(path).map_text(|text| encode_text(text, path))
}

/// Encodes `text` for a path. `path` is the configured path, for the error.
fn encode_text(text: &str, path: &str) -> Result<String, EditError> {
    if let Some(delimiter) = text.chars().find(|c| matches!(c, '?' | '#')) {
        return Err(EditError::PathWithQuery { path: path.to_owned(), delimiter });
    }
    let mut encoded = Vec::with_capacity(text.len());
    percent::encode_path(text, &mut encoded);
    Ok(String::from_utf8_lossy(&encoded).into_owned())
}

// === impl PathEdit ===

impl PathEdit {
    pub(super) fn rewrite(regexp: &str, replacement: &str) -> Result<Self, EditError> {
        let with_query = |text: &str| {
            let parts: Result<Vec<_>, _> = text.split('?').map(|part| encode_text(part, replacement)).collect();
            parts.map(|parts| parts.join("?"))
        };
        Rewrite::new(regexp, replacement, with_query).map(|rewrite| Self::Rewrite(Box::new(rewrite)))
    }

    pub(super) fn variables(&self) -> Vec<&str> {
        match self {
            Self::Prefix(template) | Self::Set(template) => template.variables(),
            Self::Strip { .. } | Self::Rewrite(_) => Vec::new(),
        }
    }

    pub(super) fn apply<B>(&self, request: &mut Request<B>) -> Result<(), ApplyError> {
        let path = request.uri().path();
        if !path.starts_with('/') {
            return Ok(());
        }
        let mut new = Vec::new();
        match self {
            Self::Strip { segments } => strip(path, *segments, &mut new),
            Self::Rewrite(rewrite) => {
                if !rewrite.apply(path.as_bytes(), &mut new).map_err(|_| ApplyError::TooSlow)? {
                    return Ok(());
                }
            }
            Self::Set(template) => template.expand(request.extensions(), &mut new)?,
            Self::Prefix(template) => {
                if request.extensions().get::<RequestContext>().is_some_and(|context| context.path_prefixed) {
                    return Ok(());
                }
                template.expand(request.extensions(), &mut new)?;
                new.extend_from_slice(path.as_bytes());
                request.extensions_mut().get_or_insert_default::<RequestContext>().path_prefixed = true;
            }
        }
        request.extensions_mut().remove::<ReceivedPath>();
        replace_path(request.uri_mut(), new)
    }
}

/// Appends the path without its first `count` segments (Spring's `StripPrefixGatewayFilterFactory`).
fn strip(path: &str, count: usize, out: &mut Vec<u8>) {
    out.reserve(path.len());
    for segment in path.split('/').filter(|segment| !segment.is_empty()).skip(count) {
        out.push(b'/');
        out.extend_from_slice(segment.as_bytes());
    }
    if out.is_empty() || path.ends_with('/') {
        out.push(b'/');
    }
}

/// Replaces the URI's path. The query is kept, after parameters at the end of `path`: received paths have no `?`, so one
/// comes from a replacement.
fn replace_path(uri: &mut Uri, mut path: Vec<u8>) -> Result<(), ApplyError> {
    if path.first() != Some(&b'/') {
        path.insert(0, b'/');
    }
    let path_ends = path.iter().position(|byte| *byte == b'?');
    // Text that was harmless in its segment may not be in another one: `img-..%2Fadmin`, `/x../admin` without its `/x`.
    check_made(path.get(..path_ends.unwrap_or(path.len())).unwrap_or_default())?;
    if let Some(query) = uri.query() {
        match path_ends {
            None => path.push(b'?'),
            Some(_) if path.ends_with(b"&") || path.ends_with(b"?") => {}
            Some(_) => path.push(b'&'),
        }
        path.extend_from_slice(query.as_bytes());
    }
    set_path_and_query(uri, path)
}

/// Replaces the path and the query of `uri`.
pub(super) fn set_path_and_query(uri: &mut Uri, text: Vec<u8>) -> Result<(), ApplyError> {
    let path_and_query = PathAndQuery::from_maybe_shared(text).map_err(|_| ApplyError::BadTarget)?;
    let mut parts = std::mem::take(uri).into_parts();
    parts.path_and_query = Some(path_and_query);
    *uri = Uri::from_parts(parts).map_err(|_| ApplyError::BadTarget)?;
    Ok(())
}
