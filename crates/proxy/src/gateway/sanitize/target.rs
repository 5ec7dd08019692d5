//! Normal form of request targets.

use std::borrow::Cow;

use http::Uri;
use http::request::Parts;
use http::uri::PathAndQuery;
use percent_encoding::{AsciiSet, percent_encode};
use tollgate_filters::context::ReceivedPath;

use crate::http::failure::Failure;
use tollgate_routing::{PathRules, Separator, keeps_spelling, normalize_by};

/// Puts the target into origin form, with its path in normal form and its query in ASCII. Keeps the received path for the
/// upstream. Returns true if the target changed.
pub(super) fn normalize_target(head: &mut Parts, rules: PathRules) -> Result<bool, Failure> {
    let received = head.uri.path();
    let path = normalize_by(received, rules).map_err(|problem| Failure::BadPath(problem.to_string()))?;
    let query = head.uri.query();
    let is_origin_form = head.uri.scheme().is_none() && head.uri.authority().is_none();
    let is_normal = matches!(path, Cow::Borrowed(path) if path.len() == received.len());
    if is_normal && is_origin_form && query.is_none_or(str::is_ascii) {
        return Ok(false);
    }
    let spelling = (!is_normal && keeps_spelling(received, rules)).then(|| ReceivedPath(received.into()));
    let target = match query {
        Some(query) => format!("{path}?{}", percent_encode(query.as_bytes(), &AsciiSet::EMPTY)),
        None => path.into_owned(),
    };
    let target = PathAndQuery::try_from(target).map_err(|_| Failure::BadRequest("the request target is malformed"))?;
    head.uri = Uri::from(target);
    if let Some(spelling) = spelling {
        head.extensions.insert(spelling);
    }
    Ok(true)
}

/// Puts a path that filters made into normal form, before it is matched again. Filters have refused other paths.
pub fn normalize_made_path(uri: &mut Uri) {
    let rules = PathRules { encoded_slash: Separator::Keep, backslash: Separator::Keep };
    let Ok(Cow::Owned(path)) = normalize_by(uri.path(), rules) else { return };
    let target = match uri.query() {
        Some(query) => format!("{path}?{query}"),
        None => path,
    };
    if let Ok(target) = PathAndQuery::try_from(target) {
        *uri = Uri::from(target);
    }
}
