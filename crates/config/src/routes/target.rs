//! `uri` of a route, and forwards to paths that no route takes.

use http::Uri;

use crate::de::Spanned;
use crate::diagnostics::{Diagnostics, Missing, Section, Severity, quoted};
use crate::filters::circuit_breaker::forward_target;
use crate::filters::model::Filter;
use crate::predicates::context::is_plain_path;
use crate::routes::key_parts::{MAX_FOLLOWED, Paths};
use crate::routes::model::{Route, Target};
use crate::sections::upstreams::UpstreamsByName;
use crate::sections::upstreams::endpoints::Scheme;
use crate::yaml::Span;

/// Returns the target that `uri` names. Reports errors.
pub(crate) fn check(
    uri: &Spanned<String>,
    upstreams: &UpstreamsByName,
    diagnostics: &mut Diagnostics,
) -> Option<Target> {
    let text = uri.value.trim();
    let at = uri.span;
    let scheme = text.split_once(':').map(|(scheme, _)| scheme.to_ascii_lowercase());
    match scheme.as_deref() {
        Some("echo") => return Some(Target::Echo),
        Some("lb") => {
            return crate::sections::upstreams::target::check(uri, upstreams, diagnostics)
                .map(|(upstream, scheme)| Target::Balanced { upstream, scheme });
        }
        Some("forward") => return forward_target(text, at, diagnostics).ok().map(Target::Forward),
        Some("no") => return Some(Target::Nowhere),
        Some(scheme @ ("http" | "https" | "ws" | "wss")) if text[scheme.len()..].starts_with("://") => {
            // WebSocket is an upgrade of HTTP: a target of `ws` serves ordinary requests, too.
            let scheme = if matches!(scheme, "https" | "wss") { Scheme::Https } else { Scheme::Http };
            return http_target(text, scheme, uri, diagnostics);
        }
        Some(scheme @ ("http" | "https" | "ws" | "wss")) => {
            diagnostics
                .error(at, format!("`{text}` is not a valid URI"))
                .help(format!("write it like `{scheme}://127.0.0.1:9000`"));
        }
        Some(function @ ("fn" | "stream")) => {
            diagnostics
                .error(at, format!("`{function}:` is a function of the application, in Java"))
                .help("serve it from an application of its own, and write its address: `uri: http://host:port`");
        }
        Some(other) if text.contains("://") => {
            diagnostics
                .error(at, format!("unknown scheme `{other}`"))
                .help("use `http://host:port`, `https://host:port`, or `echo:`");
        }
        // `localhost:8080` and `orders` alike.
        _ => {
            diagnostics
                .error(at, format!("`{text}` has no scheme"))
                .help(format!("write `http://{}`", text.trim_start_matches('/')));
        }
    }
    None
}

fn http_target(text: &str, scheme: Scheme, uri: &Spanned<String>, diagnostics: &mut Diagnostics) -> Option<Target> {
    let at = uri.span;
    let parsed = text.parse::<Uri>().ok();
    let authority = parsed.as_ref().and_then(Uri::authority);
    let (Some(uri), Some(authority)) = (&parsed, authority) else {
        diagnostics.error(at, format!("`{text}` is not a valid URI")).help("write it like `http://127.0.0.1:9000`");
        return None;
    };
    if authority.as_str().contains('@') {
        diagnostics
            .error(at, "a user and password in `uri` are not sent")
            .help("remove them, or set the header with `SetRequestHeader=Authorization,…`");
        return None;
    }
    let port = match authority.as_str().rsplit_once(':') {
        Some((_, port)) if !port.ends_with(']') => port.parse::<u16>().ok().filter(|port| *port > 0),
        _ => Some(scheme.default_port()),
    };
    let (Some(port), false) = (port, authority.host().is_empty()) else {
        diagnostics
            .error(at, format!("`{text}` has no usable host and port"))
            .help("write it like `http://127.0.0.1:9000`");
        return None;
    };
    if uri.path_and_query().is_some_and(|path| path.as_str() != "/") {
        diagnostics
            .warn(at, "path and query of `uri` are ignored, as in Spring")
            .help("`PrefixPath=/…` or `SetPath=/…` changes the path");
    }
    let host = authority.host().trim_matches(['[', ']']);
    diagnostics.servers.add(host, port, at);
    Some(Target::Http { scheme, host: host.to_owned(), port })
}

/// Warns of forwards to paths that match no route, and of fallbacks to a route whose own fallback they are.
pub(crate) fn report_lost_forwards(forwards: &[(Span, String)], routes: &[Route], diagnostics: &mut Diagnostics) {
    if forwards.is_empty() {
        return;
    }
    let may_have_controllers = diagnostics.mistakes == Severity::Warning;
    let paths = Paths::of(routes.iter());
    for (at, path) in forwards {
        let Some(route) = paths.find(path) else {
            let warning = diagnostics.warn(*at, format!("no route matches `{path}`: requests forwarded there get 404"));
            let warning = match stand_in(path).filter(|_| may_have_controllers) {
                Some(route) => warning.missing(route),
                None => warning,
            };
            warning.help(format!("add a route with `Path={path}`, also in a second file: `tollgate: {{routes: [{{id: …, uri: …, predicates: [Path={path}]}}]}}`; controllers of a Spring application do not exist here"));
            continue;
        };
        if returns_to(route, &paths) {
            let id = &route.id;
            diagnostics
                .warn(*at, format!("requests that are forwarded to `{path}` come back to route `{id}`: they end in a loop, with 508"))
                .help("forward them to a path of a route with an upstream");
        }
        if falls_back_to(route, path) {
            let id = &route.id;
            diagnostics
                .warn(*at, format!("`{path}` is a path of route `{id}`, whose own fallback it is: without its upstream, requests end in a loop, with 508"))
                .help(format!("add a route with `Path={path}` before it, to another target and without this breaker"));
        }
    }
}

/// Returns true if requests that are forwarded to `route` are forwarded to it again.
fn returns_to(route: &Route, paths: &Paths<'_>) -> bool {
    let mut at = route;
    for _ in 0..MAX_FOLLOWED {
        let Target::Forward(path) = &at.uri else { return false };
        match paths.find(path) {
            Some(next) if next.id == route.id => return true,
            Some(next) => at = next,
            None => return false,
        }
    }
    false
}

/// Returns a route in place of the controller of a Spring application at `path`, which takes the forwarded requests.
fn stand_in(path: &str) -> Option<Missing> {
    let uri = path.parse::<Uri>().ok().filter(|uri| is_plain_path(uri.path()))?;
    let (path, name) = (uri.path(), uri.path().trim_start_matches('/').replace('/', "-"));
    let predicate = quoted(&format!("Path={path}"));
    let id = quoted(&format!("stand-in-{name}"));
    Some(Missing {
        section: Section::Routes,
        name: path.to_owned(),
        value: format!("{{id: {id}, uri: \"no://op\", predicates: [{predicate}], filters: [SetStatus=503]}}"),
        comment: "for a controller of the application, which does not exist here".to_owned(),
    })
}

/// Returns true for a route to an upstream with the fallback `path`.
fn falls_back_to(route: &Route, path: &str) -> bool {
    let is_it = |filter: &Filter| {
        let Filter::CircuitBreaker(breaker) = filter else { return false };
        breaker.fallback.as_ref().is_some_and(|fallback| fallback.fixed_path.as_deref() == Some(path))
    };
    matches!(route.uri, Target::Http { .. } | Target::Balanced { .. }) && route.filters.iter().any(is_it)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;
    use crate::yaml::Span;

    fn target(text: &str) -> Option<Target> {
        let uri = Spanned { value: text.to_owned(), span: Span::ROOT };
        let mut diagnostics = Diagnostics::default();
        check(&uri, &UpstreamsByName::default(), &mut diagnostics).filter(|_| !diagnostics.has_errors())
    }

    #[test]
    fn a_target_without_a_port_has_the_default_port_of_its_scheme() {
        for (text, scheme, host, port) in [
            ("http://orders", Scheme::Http, "orders", 80),
            ("http://127.0.0.1:9000/", Scheme::Http, "127.0.0.1", 9000),
            ("http://[::1]:81", Scheme::Http, "::1", 81),
            ("https://[::1]", Scheme::Https, "::1", 443),
            ("HTTP://example.org:80/ignored", Scheme::Http, "example.org", 80),
            ("https://orders:8443", Scheme::Https, "orders", 8443),
            ("ws://chat", Scheme::Http, "chat", 80),
            ("wss://chat", Scheme::Https, "chat", 443),
        ] {
            assert_eq!(target(text), Some(Target::Http { scheme, host: host.to_owned(), port }), "{text}");
        }
        assert_eq!(target("echo:"), Some(Target::Echo));
    }

    #[test]
    fn invalid_targets_are_refused() {
        for text in [
            "",
            "orders",
            "localhost:8080",
            "https:/a",
            "wss:a",
            "https://a:0",
            "lb://a",
            "ftp://a",
            "http:/a",
            "http://",
            "http://a:99999",
            "http://u:p@a",
            "http://a b",
        ] {
            assert_eq!(target(text), None, "{text}");
        }
    }
}
