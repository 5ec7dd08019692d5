//! `httpclient.proxy`.

use regex::RegexBuilder;

use crate::de::spanned::Spanned;
use crate::diagnostics::Diagnostics;
use crate::sections::http_client::model::{Proxy, ProxyKind, ProxyLogin};
use crate::sections::http_client::raw::{RawProxy, RawProxyType};

/// Largest compiled expression in bytes.
const REGEX_SIZE_LIMIT: usize = 1 << 20;

/// Checks `httpclient.proxy`. Returns `None` if there is none, or after an error.
pub(super) fn check(raw: &Spanned<RawProxy>, diagnostics: &mut Diagnostics) -> Option<Proxy> {
    let at = raw.span;
    let raw = &raw.value;
    let kind = match raw.kind {
        None | Some(RawProxyType::Http) => ProxyKind::Http,
        Some(RawProxyType::Socks4) => ProxyKind::Socks4,
        Some(RawProxyType::Socks5) => ProxyKind::Socks5,
    };
    // `${PROXY_HOST:}` is empty in an environment without a proxy.
    let Some(host) = raw.host.as_ref().map(|host| host.value.trim()).filter(|host| !host.is_empty()) else {
        if raw.host.is_none() {
            diagnostics.mistake(at.key(), "`proxy` has no effect without `host`").help("add `host` and `port`");
        }
        return None;
    };
    let Some(port) = raw.port.filter(|port| port.value > 0) else {
        diagnostics.error(at.key(), format!("proxy `{host}` has no port")).help("add `port`");
        return None;
    };
    let text = |text: &Option<Spanned<String>>| text.as_ref().map(|text| text.value.clone()).unwrap_or_default();
    let login = raw
        .username
        .as_ref()
        .filter(|name| !name.value.is_empty())
        .map(|username| ProxyLogin { username: username.value.clone(), password: text(&raw.password) });
    if let Some(password) = raw.password.as_ref().filter(|password| login.is_none() && !password.value.is_empty()) {
        diagnostics.mistake(password.span.key(), "a `password` without `username` is not sent").help("add `username`");
    }
    if let Some(long) = [&raw.username, &raw.password].into_iter().flatten().find(|text| text.value.len() > 255)
        && kind == ProxyKind::Socks5
    {
        diagnostics.error(long.span, "SOCKS 5 credentials are limited to 255 bytes (RFC 1929)");
    }
    let except = raw.non_proxy_hosts_pattern.as_ref().and_then(|pattern| {
        let compiled = RegexBuilder::new(&format!("^(?:{})$", pattern.value))
            .size_limit(REGEX_SIZE_LIMIT)
            .case_insensitive(true)
            .build();
        compiled
            .map_err(|error| {
                let reason = error.to_string();
                let reason = reason.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
                diagnostics
                    .error(pattern.span, format!("`{}` is not a valid regular expression: {reason}", pattern.value))
                    .help("write it like `.*\\.internal|localhost`");
            })
            .ok()
    });
    Some(Proxy { kind, host: host.trim_matches(['[', ']']).to_owned(), port: port.value, login, except })
}
