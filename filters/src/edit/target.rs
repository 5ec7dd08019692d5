//! Edits that replace a request's target.

use http::{HeaderName, Request, Uri};

use super::path::has_dot_segments;
use super::template::Template;
use super::{EditError, header};
use crate::context::TargetUri;

/// The source of a request's new target.
#[derive(Clone, Debug)]
pub(super) enum TargetEdit {
    Header(HeaderName),
    Template(Template),
}

// === impl TargetEdit ===

impl TargetEdit {
    pub(super) fn header(name: &str) -> Result<Self, EditError> {
        header::parse_name(name).map(Self::Header)
    }

    pub(super) fn template(template: &str) -> Self {
        Self::Template(Template::parse(template))
    }

    pub(super) fn variables(&self) -> Vec<&str> {
        match self {
            Self::Header(_) => Vec::new(),
            Self::Template(template) => template.variables(),
        }
    }

    /// Sets the new target. Without a valid one, or without a variable of it, the route's target is used.
    pub(super) fn apply<B>(&self, request: &mut Request<B>) {
        let target = match self {
            Self::Header(name) => request.headers().get(name).and_then(|value| parse_target(value.as_bytes())),
            Self::Template(template) => {
                let mut text = Vec::new();
                template.expand(request.extensions(), &mut text).ok().and_then(|()| parse_target(&text))
            }
        };
        match target {
            Some(uri) => {
                request.extensions_mut().insert(TargetUri(uri));
            }
            None => tracing::debug!("new target is not an absolute http or https URI: using the route's target"),
        }
    }
}

/// Parses an absolute `http` or `https` URI without user information and without dot segments.
fn parse_target(text: &[u8]) -> Option<Uri> {
    let uri = Uri::try_from(text).ok()?;
    let is_http = matches!(uri.scheme_str(), Some("http" | "https"));
    let authority = uri.authority()?;
    let fits = is_http && !authority.as_str().contains(['@', '%']) && !has_dot_segments(uri.path().as_bytes());
    fits.then_some(uri)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::*;

    #[test]
    fn a_target_is_an_absolute_http_or_https_uri() {
        for (text, fits) in [
            ("http://a", true),
            ("https://a:8443/b/c?d=e", true),
            ("HTTP://a/", true),
            ("http://[::1]:80/", true),
            ("/a/b", false),
            ("a", false),
            ("a:80", false),
            ("//a/b", false),
            ("ftp://a/", false),
            ("file:///etc/passwd", false),
            ("lb://a/", false),
            ("http://", false),
            ("http://user@a/", false),
            ("http://a%2F/", false),
            ("http://a/../b", false),
            ("http://a/x/%2e%2E/b", false),
            ("http://a b/", false),
            ("", false),
        ] {
            assert_eq!(parse_target(text.as_bytes()).is_some(), fits, "{text}");
        }
    }
}
