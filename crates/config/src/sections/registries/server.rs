//! HTTP server of a registry, its TLS, and values that all registries have.

use std::fmt;

use http::Uri;

use crate::de::{self, Given, OptionalText, Spanned, Subtree};
use crate::diagnostics::Diagnostics;
use crate::sections::Secret;
use crate::sections::tls::client::{self, RawClientTls, Tls};
use crate::sections::upstreams::endpoints::Scheme;
use crate::yaml::key::canonical;
use crate::yaml::{Node, NodeKind};

/// Token in a header field of requests to a registry. A blank one counts as absent.
pub(super) type Token = Secret<OptionalText>;

impl Token {
    /// Returns the token, unless it is absent.
    pub fn get(&self) -> Option<&str> {
        self.0.get()
    }

    /// Reports other characters than a header can have. `name` is that of the token in messages.
    pub(super) fn check(&self, name: &str, diagnostics: &mut Diagnostics) {
        if let Some(token) = self.0.spanned().filter(|token| !token.bytes().all(|byte| byte.is_ascii_graphic())) {
            diagnostics.error(token.span, format!("{name} has visible ASCII characters only"));
        }
    }
}

/// HTTP server of a registry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RegistryServer {
    /// Its scheme.
    pub scheme: Scheme,
    /// Its host, without brackets.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// Start of the path of each request, without a final slash.
    pub path: String,
    /// User name and password of basic authentication.
    pub login: Option<(String, Secret)>,
}

impl fmt::Display for RegistryServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (open, close) = if self.host.contains(':') { ("[", "]") } else { ("", "") };
        write!(f, "{}://{open}{}{close}:{}", self.scheme.as_str(), self.host, self.port)
    }
}

/// Checks the URL of a server: `http://user:password@host:port/path`. Without a scheme it is `http`, without a port it
/// is `default_port`, or that of the scheme if the URL names one. Reports errors.
pub(super) fn check(
    url: &Spanned<String>,
    key: &str,
    default_port: Option<u16>,
    diagnostics: &mut Diagnostics,
) -> Option<RegistryServer> {
    let text = url.value.trim();
    let server = parse(text, default_port);
    if server.is_none() {
        // The text may contain a password.
        diagnostics
            .error(url.span, format!("`{key}` is not the URL of a server"))
            .help("write it like `http://registry.internal:8761`");
    }
    if let Some(server) = &server {
        diagnostics.servers.add(&server.host, server.port, url.span);
    }
    server
}

fn parse(text: &str, default_port: Option<u16>) -> Option<RegistryServer> {
    let (scheme, rest) = match text.split_once("://") {
        Some((scheme, rest)) => (Some(scheme), rest),
        None => (None, text),
    };
    let kind = match scheme.unwrap_or("http").to_ascii_lowercase().as_str() {
        "http" => Scheme::Http,
        "https" => Scheme::Https,
        _ => return None,
    };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let (login, address) = match authority.rsplit_once('@') {
        Some((login, address)) => (Some(login), address),
        None => (None, authority),
    };
    let uri: Uri = format!("http://{address}/").parse().ok()?;
    let authority = uri.authority()?;
    let host = authority.host().trim_matches(['[', ']']);
    let default = if scheme.is_some() { kind.default_port() } else { default_port.unwrap_or(kind.default_port()) };
    let port = match address.rsplit_once(':') {
        Some((_, port)) if !port.ends_with(']') => port.parse().ok().filter(|port| *port > 0)?,
        _ => default,
    };
    let path = path.trim_end_matches('/');
    if host.is_empty() || path.contains(['?', '#']) || path.parse::<Uri>().is_err() && !path.is_empty() {
        return None;
    }
    let login = match login.map(|login| login.split_once(':').unwrap_or((login, ""))) {
        None => None,
        Some((name, password)) => Some((decode(name)?, Secret(decode(password)?))),
    };
    Some(RegistryServer { scheme: kind, host: host.to_owned(), port, path: path.to_owned(), login })
}

/// Decodes the percent-encoded bytes of a user name or password.
fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        match (first, tail) {
            (b'%', [high, low, tail @ ..]) => {
                let digit = |byte: &u8| char::from(*byte).to_digit(16);
                bytes.push(u8::try_from(digit(high)? * 16 + digit(low)?).ok()?);
                rest = tail;
            }
            (byte, tail) => {
                bytes.push(*byte);
                rest = tail;
            }
        }
    }
    String::from_utf8(bytes).ok()
}

/// Returns the parts of a comma-separated list that are not empty, each at the place of the list.
pub(super) fn listed(list: &Spanned<String>) -> impl Iterator<Item = Spanned<String>> {
    let parts = list.value.split(',').map(str::trim).filter(|part| !part.is_empty());
    parts.map(|part| Spanned { value: part.to_owned(), span: list.span })
}

/// TLS to a Eureka server.
#[section]
pub(super) struct RawEurekaTls {
    /// Enables these settings. Default true; in a Spring file, stores need `enabled: true`.
    #[cfg_attr(test, schemars(with = "Option<bool>"))]
    enabled: Given<bool>,
    #[serde(rename = "$tollgate::SameMap")]
    #[cfg_attr(test, schemars(flatten))]
    tls: RawClientTls,
}

/// Keys of `spring.cloud.consul.tls`, each with its name here. Consul's `key-store-path` is the store of trusted certificates.
const OF_CONSUL: [(&str, &str); 5] = [
    ("certificatepath", "key-store"),
    ("certificatepassword", "key-store-password"),
    ("keystoreinstancetype", "key-store-type"),
    ("keystorepath", "trust-store"),
    ("keystorepassword", "trust-store-password"),
];

/// Checks `tls` of a registry with `check`. Without it, certificates are verified with the system's trust store.
pub(super) fn tls(
    keys: Option<Subtree>,
    check: impl FnOnce(&Node, &mut Diagnostics) -> Option<Tls>,
    diagnostics: &mut Diagnostics,
) -> Option<Tls> {
    keys.map_or(Some(Tls::default()), |keys| check(&keys, diagnostics))
}

/// Checks `consul.tls`, which may have the names of Spring Cloud Consul.
pub(super) fn check_tls_of_consul(node: &Node, diagnostics: &mut Diagnostics) -> Option<Tls> {
    let mut node = node.clone();
    if let NodeKind::Map(entries) = &mut node.kind
        && entries.iter().any(|(key, _)| matches!(canonical(key).as_str(), "keystorepath" | "certificatepath"))
    {
        for (key, _) in entries {
            if let Some((_, name)) = OF_CONSUL.iter().find(|(of_consul, _)| *of_consul == canonical(key)) {
                (*name).clone_into(key);
            }
        }
    }
    client::check(&node, diagnostics)
}

/// Checks `eureka.client.tls`, which `enabled` switches.
pub(super) fn check_tls_of_eureka(node: &Node, diagnostics: &mut Diagnostics) -> Option<Tls> {
    let (RawEurekaTls { enabled, tls }, unknown) = de::read(node, diagnostics);
    match enabled.or(true).ok()? {
        true => client::settings(tls, &unknown, diagnostics),
        false => Some(Tls::default()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn servers_have_a_scheme_a_port_a_path_and_a_login() {
        let text = |url: &str| parse(url, Some(8500)).map(|server| (server.to_string(), server.path));
        let both = |origin: &str, path: &str| Some((origin.to_owned(), path.to_owned()));
        assert_eq!(text("http://a:8761/eureka/"), both("http://a:8761", "/eureka"));
        assert_eq!(text("a"), both("http://a:8500", ""));
        assert_eq!(text("https://a"), both("https://a:443", ""));
        assert_eq!(text("[::1]:80/x"), both("http://[::1]:80", "/x"));
        let server = parse("http://me:a%40b:c@a:1/e", None).unwrap();
        assert_eq!(server.login, Some(("me".to_owned(), Secret("a@b:c".to_owned()))));
        assert_eq!(format!("{:?}", server.login), "Some((\"me\", ****))");
        for wrong in ["", "ftp://a", "http://", "a:0", "a:99999", "http://a b/", "http://a/?q", "http://%zz@a"] {
            assert_eq!(parse(wrong, None), None, "{wrong}");
        }
    }
}
