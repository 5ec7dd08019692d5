//! `server.upgrade-protocols`: protocols to which clients may switch.

use crate::de::spanned::Spanned;
use crate::diagnostics::Diagnostics;

/// Protocols that carry requests. In a tunnel, these would pass no filter.
const CARRY_REQUESTS: [&str; 5] = ["h2", "h2c", "http", "https", "tls"];

/// Checks the names, each with or without a version: `chat` or `chat/2`.
pub(super) fn check(names: &[Spanned<String>], diagnostics: &mut Diagnostics) -> Vec<String> {
    for name in names {
        let protocol = name.value.split('/').next().unwrap_or_default();
        let is_token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
        if CARRY_REQUESTS.iter().any(|carrier| protocol.eq_ignore_ascii_case(carrier)) {
            diagnostics
                .error(name.span, format!("`{}` cannot be tunnelled: its requests would pass no filter", name.value))
                .help("remove it: the gateway itself speaks HTTP/2 and TLS with clients and upstreams");
        } else if protocol.is_empty() || !name.value.bytes().all(|b| is_token(b) || b == b'/') {
            diagnostics.error(name.span, format!("expected a protocol such as `chat`, found `{}`", name.value));
        }
    }
    names.iter().map(|name| name.value.clone()).collect()
}
