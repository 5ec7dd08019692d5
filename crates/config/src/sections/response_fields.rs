//! Fields that the gateway adds to responses: `server.proxy-status` and `server.strict-transport-security`.

use http::HeaderValue;

use crate::de::Spanned;
use crate::diagnostics::Diagnostics;
use crate::sections::server::Server;

/// Checks the settings of both fields. `may_use_tls` is true if clients may use TLS without that of `server`, as behind proxies.
pub(crate) fn check(server: &mut Server, may_use_tls: bool, diagnostics: &mut Diagnostics) {
    if let Some(name) = &server.proxy_status {
        check_proxy_name(name, diagnostics);
    }
    let Some(text) = &server.strict_transport_security else { return };
    server.hsts = hsts(text, diagnostics);
    if server.hsts.is_some() && server.tls.is_none() && !may_use_tls {
        diagnostics
            .warn(
                text.span.key(),
                "`strict-transport-security` is for clients that use TLS, and there is no `server.ssl`",
            )
            .help("add `server.ssl` or `server.acme`, or in `trusted-proxies` the proxy that terminates TLS");
    }
}

/// Checks the name of the gateway, which is a token of a structured field (RFC 9651 §3.3.4).
fn check_proxy_name(name: &Spanned<String>, diagnostics: &mut Diagnostics) {
    let is_part = |b: u8| b.is_ascii_alphanumeric() || b"-._".contains(&b);
    if !name.starts_with(|c: char| c.is_ascii_alphabetic()) || !name.bytes().all(is_part) {
        diagnostics
            .error(name.span, format!("`{}` is no name for `Proxy-Status`", name.value))
            .help("write letters, digits, `-`, `.` and `_`, such as `edge-1`; the first is a letter");
    }
}

/// Checks the value of `Strict-Transport-Security`: directives, `max-age` once among them (RFC 6797 §6.1).
fn hsts(text: &Spanned<String>, diagnostics: &mut Diagnostics) -> Option<HeaderValue> {
    let directives = text.split(';').map(|directive| directive.split_once('=').unwrap_or((directive, "")));
    let max_ages = directives.filter(|(name, _)| name.trim().eq_ignore_ascii_case("max-age"));
    let seconds = max_ages.map(|(_, value)| value.trim().trim_matches('"').parse::<u64>().ok());
    let value = HeaderValue::try_from(&text.value).ok().filter(|_| matches!(*seconds.collect::<Vec<_>>(), [Some(_)]));
    if value.is_none() {
        diagnostics
            .error(text.span, format!("`{}` has no `max-age` in seconds", text.value))
            .help("write a time in seconds, such as `max-age=31536000; includeSubDomains`");
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::yaml::Span;

    #[test]
    fn the_time_of_hsts_is_there_once() {
        let hsts = |text: &str| {
            let text = Spanned { value: text.to_owned(), span: Span::default() };
            hsts(&text, &mut Diagnostics::default()).is_some()
        };
        for text in ["max-age=0", "max-age=31536000; includeSubDomains; preload", "includeSubDomains; MAX-AGE = \"60\""]
        {
            assert!(hsts(text), "{text}");
        }
        for text in ["", "31536000", "max-age", "max-age=1y", "max-age=-1", "max-age=1; max-age=2", "max-age=1\n"] {
            assert!(!hsts(text), "{text}");
        }
    }
}
