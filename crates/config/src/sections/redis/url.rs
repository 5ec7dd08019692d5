//! `redis.url`, checked without the driver, since its messages have no positions. Messages never contain passwords.

use std::net::IpAddr;

use crate::de::Spanned;
use crate::diagnostics::{Diagnostics, Reported};
use crate::yaml::Span;

/// A valid URL and its parts.
#[derive(Debug, Default)]
pub(super) struct Url {
    pub(super) text: String,
    pub(super) transport: Transport,
    pub(super) has_username: bool,
    pub(super) has_password: bool,
    pub(super) database: Option<u32>,
    pub(super) has_protocol: bool,
    /// True if the file has a URL; false if the URL was built from host and port.
    pub(super) is_written: bool,
    pub(super) span: Span,
}

/// Connection that a scheme names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Transport {
    #[default]
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

/// Reads `url`.
///
/// # Errors
/// The driver would refuse it, which is reported.
pub(super) fn check(url: &Spanned<String>, diagnostics: &mut Diagnostics) -> Result<Url, Reported> {
    let (text, at) = (url.value.trim(), url.span);
    let (transport, rest) = transport(text, at, diagnostics)?;
    let [authority, path, query] = parts(rest, at, diagnostics)?;
    let (user, host_port) = authority.rsplit_once('@').unwrap_or(("", authority));
    let (username, password) = user.split_once(':').map_or((user, None), |(user, password)| (user, Some(password)));
    let mut redis_url = Url {
        text: text.to_owned(),
        transport,
        has_username: !username.is_empty(),
        has_password: password.is_some_and(|password| !password.is_empty()),
        is_written: true,
        span: at,
        ..Url::default()
    };
    parameters(query, &mut redis_url, diagnostics)?;
    if transport == Transport::Socket {
        if !authority.is_empty() || path.len() < 2 {
            return Err(diagnostics
                .error(at, "`redis.url` must have the absolute path of a socket")
                .reported_with("use three slashes: `redis+unix:///run/redis/redis.sock`"));
        }
        diagnostics.servers.add(path, 0, at);
        return Ok(redis_url);
    }
    host(host_port, "redis.url", at, diagnostics)?;
    redis_url.database = database(path, at, diagnostics)?;
    Ok(redis_url)
}

/// Returns the transport that the scheme of `text` names, and the text behind the scheme.
fn transport<'t>(text: &'t str, at: Span, diagnostics: &mut Diagnostics) -> Result<(Transport, &'t str), Reported> {
    let Some((scheme, rest)) = text.split_once("://") else {
        let lacks = if text.is_empty() { "is empty" } else { "has no scheme" };
        return Err(diagnostics
            .error(at, format!("`redis.url` {lacks}"))
            .reported_with("write it like `redis://127.0.0.1:6379`"));
    };
    let Some((_, transport)) = SCHEMES.into_iter().find(|(known, _)| scheme.eq_ignore_ascii_case(known)) else {
        let help = match scheme {
            "redis-sentinel" => "write Sentinels as `sentinel: {master: NAME, nodes: [\"host:26379\"]}`",
            "redis-cluster" => "write a cluster as `cluster: {nodes: [\"host:6379\"]}`",
            _ => "write it like `redis://127.0.0.1:6379`, `rediss://…` for TLS, `redis+unix:///run/redis.sock`",
        };
        return Err(diagnostics
            .error(at, format!("`redis.url` must begin with redis:// or rediss://, not {scheme}://"))
            .reported_with(help));
    };
    Ok((transport, rest))
}

/// Splits the text behind the scheme into authority, path and query. Refuses fragments, and separators in the user name or password.
fn parts<'t>(rest: &'t str, at: Span, diagnostics: &mut Diagnostics) -> Result<[&'t str; 3], Reported> {
    let (authority, tail) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    let (tail, fragment) = tail.split_once('#').map_or((tail, None), |(tail, fragment)| (tail, Some(fragment)));
    let (path, query) = tail.split_once('?').unwrap_or((tail, ""));
    if !authority.contains('@') && [path, fragment.unwrap_or_default()].iter().any(|part| part.contains('@')) {
        return Err(diagnostics
            .error(at, "`redis.url` has an unencoded `/`, `?` or `#` before its `@`, in the user name or password")
            .reported_with("write `%2F`, `%3F` and `%23`, or use `password` beside `url`"));
    }
    if let Some(fragment) = fragment {
        let error = diagnostics.error(at, "`redis.url` must not have a fragment `#…`");
        let help = "certificates are always verified: use `tls: {ca: FILE}` for a CA of your own";
        return Err(if fragment == "insecure" { error.reported_with(help) } else { error.reported() });
    }
    Ok([authority, path, query])
}

/// Returns the database number of the path, if it has one.
fn database(path: &str, at: Span, diagnostics: &mut Diagnostics) -> Result<Option<u32>, Reported> {
    let number = path.trim_matches('/');
    if number.is_empty() {
        return Ok(None);
    }
    number.parse().map(Some).map_err(|_| {
        diagnostics
            .error(at, format!("`redis.url` must end with a database number, found `{number}`"))
            .reported_with("write it like `redis://127.0.0.1:6379/0`")
    })
}

/// Returns the server at `host`, an IPv6 address with or without brackets, and `port`.
pub(super) fn from_host_and_port(
    host: &str,
    port: u16,
    at: Span,
    diagnostics: &mut Diagnostics,
) -> Result<Url, Reported> {
    let brackets = host.contains(':') && !host.starts_with('[');
    let host_port = if brackets { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
    self::host(&host_port, "redis.host", at, diagnostics)?;
    Ok(Url { text: format!("redis://{host_port}"), span: at, ..Url::default() })
}

/// Checks the host and port of the key `of`; the port may be missing.
fn host(host_port: &str, of: &str, at: Span, diagnostics: &mut Diagnostics) -> Result<(), Reported> {
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
        return Err(diagnostics
            .error(at, format!("`{of}` has no usable host and port in `{host_port}`"))
            .reported_with("write it like `redis://127.0.0.1:6379`"));
    };
    let host = host.trim_matches(['[', ']']);
    let port = host_port.rsplit_once(':').and_then(|(_, port)| port.parse().ok());
    diagnostics.servers.add(host, port.unwrap_or(6379), at);
    refuse_unspecified(host, at, diagnostics)
}

/// Reports addresses that can only be listened on.
pub(super) fn refuse_unspecified(host: &str, at: Span, diagnostics: &mut Diagnostics) -> Result<(), Reported> {
    if host.parse::<IpAddr>().is_ok_and(|address| address.is_unspecified()) {
        return Err(diagnostics
            .error(at, format!("`{host}` is an address to listen on, not one to connect to"))
            .reported_with("`127.0.0.1` is this machine"));
    }
    Ok(())
}

/// Reads the query.
fn parameters(query: &str, url: &mut Url, diagnostics: &mut Diagnostics) -> Result<(), Reported> {
    for (name, value) in
        query.split('&').filter(|part| !part.is_empty()).map(|part| part.split_once('=').unwrap_or((part, "")))
    {
        match (name, url.transport) {
            ("protocol", _) if PROTOCOLS.contains(&value) => url.has_protocol = true,
            ("protocol", _) => {
                return Err(diagnostics
                    .error(
                        url.span,
                        format!("expected `protocol=resp2` or `protocol=resp3` in `redis.url`, found `{value}`"),
                    )
                    .reported());
            }
            ("user", Transport::Socket) => url.has_username = true,
            ("pass", Transport::Socket) => url.has_password = true,
            ("db", Transport::Socket) => match value.parse() {
                Ok(database) => url.database = Some(database),
                Err(_) => {
                    return Err(diagnostics
                        .error(url.span, format!("`db` in `redis.url` must be a database number, found `{value}`"))
                        .reported());
                }
            },
            _ => {
                diagnostics
                    .mistake(url.span, format!("unknown parameter `{name}` in `redis.url`"))
                    .help("write settings beside `url`: `timeout`, `connections`, `database`");
            }
        }
    }
    Ok(())
}
