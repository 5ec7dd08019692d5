//! `redis.url`, checked without the driver, since its messages have no positions. Messages never contain passwords.

use std::net::IpAddr;

use crate::de::spanned::Spanned;
use crate::diagnostics::Diagnostics;
use crate::yaml::Span;

/// A valid URL and its parts.
#[derive(Debug)]
pub(super) struct Url {
    pub(super) text: String,
    pub(super) transport: Transport,
    pub(super) has_username: bool,
    pub(super) has_password: bool,
    pub(super) database: Option<u32>,
    pub(super) says_protocol: bool,
    /// True if the file has a URL; false if the URL was built from host and port.
    pub(super) is_written: bool,
    pub(super) span: Span,
}

/// Connection that a scheme names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Transport {
    Plain,
    Tls,
    Socket,
}

const SCHEMES: [(&str, Transport); 7] = [
    ("redis", Transport::Plain),
    ("valkey", Transport::Plain),
    ("rediss", Transport::Tls),
    ("valkeys", Transport::Tls),
    ("redis+unix", Transport::Socket),
    ("valkey+unix", Transport::Socket),
    ("unix", Transport::Socket),
];

/// Names of protocol versions in a URL.
const PROTOCOLS: [&str; 4] = ["2", "resp2", "3", "resp3"];

/// Reads `url`. Reports errors; `None` if the driver would refuse it.
pub(super) fn check(url: &Spanned<String>, diagnostics: &mut Diagnostics) -> Option<Url> {
    let (text, at) = (url.value.trim(), url.span);
    let (transport, rest) = transport(text, at, diagnostics)?;
    let Parts { authority, path, query } = parts(rest, at, diagnostics)?;
    let (user, host_port) = authority.rsplit_once('@').unwrap_or(("", authority));
    let (username, password) = user.split_once(':').map_or((user, None), |(user, password)| (user, Some(password)));
    let mut found = Url {
        text: text.to_owned(),
        transport,
        has_username: !username.is_empty(),
        has_password: password.is_some_and(|password| !password.is_empty()),
        database: None,
        says_protocol: false,
        is_written: true,
        span: at,
    };
    parameters(query, &mut found, diagnostics)?;
    if transport == Transport::Socket {
        if !authority.is_empty() || path.len() < 2 {
            diagnostics
                .error(at, "`redis.url` must have the absolute path of a socket")
                .help("use three slashes: `redis+unix:///run/redis/redis.sock`");
            return None;
        }
        return Some(found);
    }
    host(host_port, "redis.url", at, diagnostics)?;
    found.database = database(path, at, diagnostics)?;
    Some(found)
}

/// Returns the transport that the scheme of `text` names, and the text behind the scheme.
fn transport<'t>(text: &'t str, at: Span, diagnostics: &mut Diagnostics) -> Option<(Transport, &'t str)> {
    let Some((scheme, rest)) = text.split_once("://") else {
        let lacks = if text.is_empty() { "is empty" } else { "has no scheme" };
        diagnostics.error(at, format!("`redis.url` {lacks}")).help("write it like `redis://127.0.0.1:6379`");
        return None;
    };
    let Some((_, transport)) = SCHEMES.into_iter().find(|(known, _)| scheme.eq_ignore_ascii_case(known)) else {
        let help = match scheme {
            "redis-sentinel" => "write Sentinels as `sentinel: {master: NAME, nodes: [\"host:26379\"]}`",
            "redis-cluster" => "write a cluster as `cluster: {nodes: [\"host:6379\"]}`",
            _ => "write it like `redis://127.0.0.1:6379`, `rediss://…` for TLS, `redis+unix:///run/redis.sock`",
        };
        diagnostics.error(at, format!("`redis.url` must begin with redis:// or rediss://, not {scheme}://")).help(help);
        return None;
    };
    Some((transport, rest))
}

/// Parts of a URL behind its scheme.
struct Parts<'t> {
    authority: &'t str,
    path: &'t str,
    query: &'t str,
}

/// Splits the text behind the scheme. Refuses fragments, and separators in the user name or password.
fn parts<'t>(rest: &'t str, at: Span, diagnostics: &mut Diagnostics) -> Option<Parts<'t>> {
    let (authority, tail) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    let (tail, fragment) = tail.split_once('#').map_or((tail, None), |(tail, fragment)| (tail, Some(fragment)));
    let (path, query) = tail.split_once('?').unwrap_or((tail, ""));
    if !authority.contains('@') && [path, fragment.unwrap_or_default()].iter().any(|part| part.contains('@')) {
        diagnostics
            .error(at, "`redis.url` has an unencoded `/`, `?` or `#` before its `@`, in the user name or password")
            .help("write `%2F`, `%3F` and `%23`, or use `password` beside `url`");
        return None;
    }
    if let Some(fragment) = fragment {
        let found = diagnostics.error(at, "`redis.url` must not have a fragment `#…`");
        if fragment == "insecure" {
            found.help("certificates are always verified: use `tls: {ca: FILE}` for a CA of your own");
        }
        return None;
    }
    Some(Parts { authority, path, query })
}

/// Returns the database number of the path, if it has one. The outer `None` is an error.
#[expect(clippy::option_option, reason = "the outer one tells an error from an absent number")]
fn database(path: &str, at: Span, diagnostics: &mut Diagnostics) -> Option<Option<u32>> {
    let number = path.trim_matches('/');
    if number.is_empty() {
        return Some(None);
    }
    let Ok(database) = number.parse() else {
        diagnostics
            .error(at, format!("`redis.url` must end with a database number, found `{number}`"))
            .help("write it like `redis://127.0.0.1:6379/0`");
        return None;
    };
    Some(Some(database))
}

/// Returns the server at `host`, an IPv6 address with or without brackets, and `port`.
pub(super) fn from_host_and_port(host: &str, port: u16, at: Span, diagnostics: &mut Diagnostics) -> Option<Url> {
    let brackets = host.contains(':') && !host.starts_with('[');
    let host_port = if brackets { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
    self::host(&host_port, "redis.host", at, diagnostics)?;
    Some(Url {
        text: format!("redis://{host_port}"),
        transport: Transport::Plain,
        has_username: false,
        has_password: false,
        database: None,
        says_protocol: false,
        is_written: false,
        span: at,
    })
}

/// Checks the host and port of the key `of`; the port may be missing. Reports an error and returns `None` if they are
/// invalid.
fn host(host_port: &str, of: &str, at: Span, diagnostics: &mut Diagnostics) -> Option<()> {
    let uri = if host_port.contains(['/', '@', '?', '#']) {
        None
    } else {
        format!("http://{host_port}/").parse::<http::Uri>().ok()
    };
    let host = uri.and_then(|uri| uri.host().map(str::to_owned)).filter(|host| !host.is_empty());
    let port_fits = host_port
        .rsplit_once(':')
        .is_none_or(|(_, port)| port.ends_with(']') || port.parse::<u16>().is_ok_and(|port| port > 0));
    let Some(host) = host.filter(|_| port_fits) else {
        diagnostics
            .error(at, format!("`{of}` has no usable host and port in `{host_port}`"))
            .help("write it like `redis://127.0.0.1:6379`");
        return None;
    };
    everywhere(host.trim_matches(['[', ']']), at, diagnostics)
}

/// Reports addresses that can only be listened on.
pub(super) fn everywhere(host: &str, at: Span, diagnostics: &mut Diagnostics) -> Option<()> {
    if host.parse::<IpAddr>().is_ok_and(|address| address.is_unspecified()) {
        diagnostics
            .error(at, format!("`{host}` is an address to listen on, not one to connect to"))
            .help("`127.0.0.1` is this machine");
        return None;
    }
    Some(())
}

/// Reads the query.
fn parameters(query: &str, url: &mut Url, diagnostics: &mut Diagnostics) -> Option<()> {
    for (name, value) in
        query.split('&').filter(|part| !part.is_empty()).map(|part| part.split_once('=').unwrap_or((part, "")))
    {
        match (name, url.transport) {
            ("protocol", _) if PROTOCOLS.contains(&value) => url.says_protocol = true,
            ("protocol", _) => {
                diagnostics.error(
                    url.span,
                    format!("expected `protocol=resp2` or `protocol=resp3` in `redis.url`, found `{value}`"),
                );
                return None;
            }
            ("user", Transport::Socket) => url.has_username = true,
            ("pass", Transport::Socket) => url.has_password = true,
            ("db", Transport::Socket) => match value.parse() {
                Ok(database) => url.database = Some(database),
                Err(_) => {
                    diagnostics
                        .error(url.span, format!("`db` in `redis.url` must be a database number, found `{value}`"));
                    return None;
                }
            },
            _ => {
                diagnostics
                    .mistake(url.span, format!("unknown parameter `{name}` in `redis.url`"))
                    .help("write settings beside `url`: `timeout`, `connections`, `database`");
            }
        }
    }
    Some(())
}
