//! `forward:/path`: a request that is routed again within the gateway.

use std::sync::Arc;

use tollgate_filters::edit::Edit;

use crate::diagnostics::{Diagnostics, Reported, reasons};
use crate::filters::model::Forward;
use crate::yaml::Span;
use tollgate_routing::normalize;

/// Returns the path of a route's target `forward:/path`. Reports errors.
pub(crate) fn target(text: &str, at: Span, diagnostics: &mut Diagnostics) -> Result<Arc<str>, Reported> {
    let (path, query) = path_and_query(text, at, diagnostics)?;
    if query.is_some() {
        diagnostics.warn(at, "the query of `uri` is ignored: requests keep their own, as in Spring").help("remove it");
    }
    normalized(path, at, diagnostics).map(Into::into)
}

/// Returns the fallback of a circuit breaker. Reports errors.
pub(crate) fn fallback(text: &str, at: Span, diagnostics: &mut Diagnostics) -> Result<Forward, Reported> {
    if !text.starts_with("forward:") {
        let error = diagnostics.error(at, format!("fallback must be `forward:/path`, found `{text}`"));
        return Err(
            error.reported_with("write `fallbackUri: forward:/path`, and add a route from that path to the server")
        );
    }
    let (path, query) = path_and_query(text, at, diagnostics)?;
    let fixed_path = if path.contains('{') { None } else { Some(normalized(path, at, diagnostics)?.into()) };
    let path = Edit::set_path(path).map_err(|error| diagnostics.error(at, reasons(&error)).reported())?;
    Ok(Forward { path, query: query.map(Into::into), fixed_path })
}

/// Splits a target into path and query. Reports errors.
fn path_and_query<'t>(
    text: &'t str,
    at: Span,
    diagnostics: &mut Diagnostics,
) -> Result<(&'t str, Option<&'t str>), Reported> {
    let rest = text.strip_prefix("forward:").unwrap_or(text);
    // `forward:///path` has an empty authority.
    let rest = rest.strip_prefix("//").filter(|rest| rest.starts_with('/')).unwrap_or(rest);
    if !rest.starts_with('/') || rest.starts_with("//") || rest.contains('#') {
        let error = diagnostics.error(at, format!("`{text}` has no path"));
        return Err(error.reported_with("write it like `forward:/path`"));
    }
    Ok(rest.split_once('?').map_or((rest, None), |(path, query)| (path, Some(query))))
}

/// Returns the normal form of a path. Reports errors.
fn normalized(path: &str, at: Span, diagnostics: &mut Diagnostics) -> Result<String, Reported> {
    let parsed = path.parse::<http::uri::PathAndQuery>().ok();
    match parsed.as_ref().map(|path| normalize(path.path())) {
        Some(Ok(path)) => Ok(path.into_owned()),
        Some(Err(error)) => Err(diagnostics.error(at, format!("`{path}` is not a valid path: {error}")).reported()),
        None => {
            let error = diagnostics.error(at, format!("`{path}` is not a valid path"));
            Err(error.reported_with("percent-encode special characters"))
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::*;

    #[test]
    fn a_forward_is_a_path_of_the_gateway() {
        for (text, path) in [
            ("forward:/a", Some("/a")),
            ("forward:/a/../b", Some("/b")),
            ("forward:///a", Some("/a")),
            ("forward:/", Some("/")),
            ("forward:a", None),
            ("forward:", None),
            ("forward://host/a", None),
            ("forward:/a#b", None),
            ("forward:/a b", None),
            ("forward:/a%00", None),
        ] {
            let mut diagnostics = Diagnostics::default();
            let found = target(text, Span::ROOT, &mut diagnostics);
            assert_eq!(found.ok().as_deref(), path, "{text}");
            assert_eq!(diagnostics.has_errors(), path.is_none(), "{text}");
        }
    }

    #[test]
    fn a_fallback_can_have_variables_and_a_query() {
        let mut diagnostics = Diagnostics::default();
        let plain = fallback("forward:/f?a=b", Span::ROOT, &mut diagnostics).unwrap();
        assert_eq!((plain.fixed_path.as_deref(), plain.query.as_deref()), (Some("/f"), Some("a=b")));
        let template = fallback("forward:/f/{v}", Span::ROOT, &mut diagnostics).unwrap();
        assert_eq!((template.fixed_path, template.path.variables()), (None, vec!["v"]));
        assert!(!diagnostics.has_errors());
        assert!(fallback("http://host/f", Span::ROOT, &mut diagnostics).is_err());
    }
}
