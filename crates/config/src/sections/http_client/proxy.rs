//! `httpclient.proxy`.

use regex::{Regex, RegexBuilder};

use crate::de::{OptionalText, Spanned, Word};
use crate::diagnostics::Diagnostics;
use crate::sections::Secret;
use crate::sections::forwarding::trusted_proxies::regex_reason;

/// Proxy for connections to upstreams.
#[section(Clone)]
pub(crate) struct RawProxy {
    /// Protocol of the proxy: `http` (CONNECT), `socks4` or `socks5`.
    #[serde(rename = "type")]
    kind: Word<ProxyKind>,
    /// Its host.
    host: OptionalText,
    /// Its port.
    port: Option<Spanned<u16>>,
    /// User name. Default: none, no authentication.
    username: Option<Spanned<String>>,
    /// Password of `username`.
    password: Option<Spanned<String>>,
    /// Regular expression for hosts that bypass the proxy; it must match the whole host.
    non_proxy_hosts_pattern: Option<Spanned<String>>,
}

/// Proxy for connections to upstreams.
#[derive(Clone, Debug)]
pub struct Proxy {
    /// Its protocol.
    pub kind: ProxyKind,
    /// Its host.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// Credentials.
    pub login: Option<ProxyLogin>,
    /// Hosts that bypass it.
    pub except: Option<Regex>,
}

/// Protocol of a proxy.
#[word(Default)]
pub enum ProxyKind {
    /// HTTP's `CONNECT` (RFC 9110 §9.3.6).
    #[default]
    Http,
    /// SOCKS 4a.
    Socks4,
    /// SOCKS 5 (RFC 1928).
    Socks5,
}

/// Credentials for a proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProxyLogin {
    /// User name.
    pub username: String,
    /// Password; empty if there is none.
    pub password: Secret,
}

/// Largest compiled expression in bytes.
const REGEX_SIZE_LIMIT: usize = 1 << 20;

/// Checks `httpclient.proxy`. Returns `None` if there is none, or after an error.
pub(super) fn check(raw: &Spanned<RawProxy>, diagnostics: &mut Diagnostics) -> Option<Proxy> {
    let at = raw.span;
    let raw = &raw.value;
    let kind = raw.kind.0;
    let Some(host) = raw.host.get() else {
        // `${PROXY_HOST:}` is blank in an environment without a proxy.
        if !raw.host.is_given() {
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
        .map(|username| ProxyLogin { username: username.value.clone(), password: Secret(text(&raw.password)) });
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
                let reason = regex_reason(&error);
                diagnostics
                    .error(pattern.span, format!("`{}` is not a valid regular expression: {reason}", pattern.value))
                    .help("write it like `.*\\.internal|localhost`");
            })
            .ok()
    });
    Some(Proxy { kind, host: host.trim_matches(['[', ']']).to_owned(), port: port.value, login, except })
}

impl PartialEq for Proxy {
    fn eq(&self, other: &Self) -> bool {
        let text = |except: &Option<Regex>| except.as_ref().map(|regex| regex.as_str().to_owned());
        (self.kind, &self.host, self.port, &self.login, text(&self.except))
            == (other.kind, &other.host, other.port, &other.login, text(&other.except))
    }
}
