//! A route's `uri` to where it leads.

use http::Uri;
use http::header::HeaderValue;

use super::forward;
use super::model::Target;
use super::problem::Sink;
use super::spot::Spot;
use super::upstreams::{self, Named};

/// The target that `uri` means; `None` when it cannot be used, which `sink` then knows.
pub(crate) fn check(uri: &Spot<String>, upstreams: &Named, sink: &mut Sink) -> Option<Target> {
    let text = uri.value.trim();
    let at = uri.origin;
    let scheme = text.split_once(':').map(|(scheme, _)| scheme.to_ascii_lowercase());
    match scheme.as_deref() {
        Some("echo") => return Some(Target::Echo),
        Some("lb") => return upstreams::target(uri, upstreams, sink),
        Some("forward") => return forward::target(text, at, sink).map(Target::Forward),
        Some("no") => return Some(Target::Nowhere),
        Some("http") if text.get(4..7) == Some("://") => {}
        Some("http") => {
            sink.error(at, format!("`{text}` is no URI")).help("write it like `http://127.0.0.1:9000`");
            return None;
        }
        Some(later @ ("https" | "ws" | "wss")) => {
            let help = match later {
                "https" | "wss" => "use `http://` within a trusted network",
                "ws" => "use `http://`: upgrades to WebSocket are passed on",
                _ => "use `http://host:port`",
            };
            sink.error(at, format!("targets of scheme `{later}` are not supported yet")).help(help);
            return None;
        }
        Some(other) if text.contains("://") => {
            sink.error(at, format!("unknown scheme `{other}`")).help("use `http://host:port`, or `echo:`");
            return None;
        }
        // `localhost:8080` and `orders` alike.
        _ => {
            sink.error(at, format!("`{text}` has no scheme"))
                .help(format!("write `http://{}`", text.trim_start_matches('/')));
            return None;
        }
    }
    http_target(text, uri, sink)
}

fn http_target(text: &str, spot: &Spot<String>, sink: &mut Sink) -> Option<Target> {
    let at = spot.origin;
    let parsed = text.parse::<Uri>().ok();
    let authority = parsed.as_ref().and_then(Uri::authority);
    let (Some(uri), Some(authority)) = (&parsed, authority) else {
        sink.error(at, format!("`{text}` is no URI")).help("write it like `http://127.0.0.1:9000`");
        return None;
    };
    if authority.as_str().contains('@') {
        sink.error(at, "a user and password in `uri` are not sent")
            .help("remove them, or set the header with `SetRequestHeader=Authorization,…`");
        return None;
    }
    let port = match authority.as_str().rsplit_once(':') {
        Some((_, port)) if !port.ends_with(']') => port.parse::<u16>().ok().filter(|port| *port > 0),
        _ => Some(80),
    };
    let (Some(port), false) = (port, authority.host().is_empty()) else {
        sink.error(at, format!("`{text}` has no usable host and port")).help("write it like `http://127.0.0.1:9000`");
        return None;
    };
    if uri.path_and_query().is_some_and(|path| path.as_str() != "/") {
        sink.warn(at, "path and query of `uri` are ignored: only scheme, host and port count, as in Spring")
            .help("`PrefixPath=/…` or `SetPath=/…` changes the path");
    }
    let host = authority.host();
    let shown = if port == 80 { host.to_owned() } else { format!("{host}:{port}") };
    let Ok(authority) = HeaderValue::from_str(&shown) else {
        sink.error(at, format!("`{shown}` cannot stand in a Host header"));
        return None;
    };
    Some(Target::Http { host: host.trim_matches(['[', ']']).to_owned(), port, authority })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;
    use crate::config::yaml::Origin;

    fn target(text: &str) -> Option<Target> {
        check(&Spot { value: text.to_owned(), origin: Origin::ROOT }, &Named::new(), &mut Sink::default())
    }

    #[test]
    fn a_target_is_host_and_port_with_80_left_out_of_the_host_header() {
        for (text, host, port, authority) in [
            ("http://orders", "orders", 80, "orders"),
            ("http://127.0.0.1:9000/", "127.0.0.1", 9000, "127.0.0.1:9000"),
            ("http://[::1]:81", "::1", 81, "[::1]:81"),
            ("http://[::1]", "::1", 80, "[::1]"),
            ("HTTP://example.org:80/ignored", "example.org", 80, "example.org"),
        ] {
            let expected = Target::Http { host: host.to_owned(), port, authority: HeaderValue::from_static(authority) };
            assert_eq!(target(text), Some(expected), "{text}");
        }
        assert_eq!(target("echo:"), Some(Target::Echo));
    }

    #[test]
    fn what_is_no_http_target_is_refused() {
        for text in [
            "",
            "orders",
            "localhost:8080",
            "https://a",
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
