//! Edits that replace a request's target.

use http::{HeaderName, Request, Uri};
use tollgate_routing::{check_made, host_form};

use super::template::Template;
use crate::context::TargetUri;
use crate::percent;

/// The source of a request's new target.
#[derive(Clone, Debug)]
pub(super) enum TargetEdit {
    Header(HeaderName),
    Template(Template),
}

// === impl TargetEdit ===

impl TargetEdit {
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
                let expanded = template.expand_with(request.extensions(), &mut text, |value, text| {
                    // In a query a variable is one value: `&` and `=` in it are encoded.
                    match text.contains(&b'?') {
                        true => percent::encode_strictly(percent::decode(value.as_bytes(), false), text),
                        false => text.extend_from_slice(value.as_bytes()),
                    }
                });
                expanded.ok().and_then(|()| parse_target(&text))
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

/// Parses an absolute `http` or `https` URI without user information, whose path has one meaning for all readers.
fn parse_target(text: &[u8]) -> Option<Uri> {
    let mut encoded = Vec::with_capacity(text.len());
    percent::encode_non_ascii(text, &mut encoded);
    let uri = Uri::try_from(encoded).ok()?;
    let is_http = matches!(uri.scheme_str(), Some("http" | "https"));
    let authority = uri.authority()?;
    let fits =
        is_http && host_form(authority.as_str().as_bytes()).is_some() && check_made(uri.path().as_bytes()).is_ok();
    fits.then_some(uri)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::*;
    use crate::context::RequestContext;

    #[test]
    fn variables_add_no_parameters_to_a_query() {
        let template = TargetEdit::Template(Template::parse("http://a/{v}?first={v}&admin=0"));
        for (value, expected) in [
            ("x", "http://a/x?first=x&admin=0"),
            ("x&admin=1", "http://a/x&admin=1?first=x%26admin%3D1&admin=0"),
            ("x%26admin%3D1", "http://a/x%26admin%3D1?first=x%26admin%3D1&admin=0"),
            ("x+%2B%20", "http://a/x+%2B%20?first=x%2B%2B%20&admin=0"),
        ] {
            let variables = vec![("v".into(), value.to_owned())];
            let mut request = Request::new(());
            request.extensions_mut().insert(RequestContext { variables, ..RequestContext::default() });
            template.apply(&mut request);
            let target = request.extensions().get::<TargetUri>().map(|target| target.0.to_string());
            assert_eq!(target.as_deref(), Some(expected), "{value}");
        }
    }

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
            ("http://a,b/", false),
            ("http://a/../b", false),
            ("http://a/x/%2e%2E/b", false),
            ("http://a/x/..%2Fb", false),
            ("http://a/x/..;y/b", false),
            ("http://a/;y/b", false),
            ("http://a/%00", false),
            ("http://a/\\b", false),
            ("http://a/x%2Fy//z", true),
            ("http://a/é?é", true),
            ("http://é/", false),
            ("http://a b/", false),
            ("", false),
        ] {
            assert_eq!(parse_target(text.as_bytes()).is_some(), fits, "{text}");
        }
    }
}
