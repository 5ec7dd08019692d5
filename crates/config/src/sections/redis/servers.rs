//! Servers of Redis, exactly one of `url`, `host`, `cluster` and `sentinel`, with user names and passwords.

use std::net::Ipv6Addr;

use tollgate_limiter::store::redis::{HostPort, Login, Sentinel};

use crate::de::{Given, OptionalText, Spanned};
use crate::diagnostics::{Diagnostics, Reported};
#[cfg(test)]
use crate::sections::StringOrList;
use crate::sections::files;
use crate::sections::redis::RawRedis;
use crate::sections::redis::url::{self, Url, refuse_unspecified};
use crate::sections::tls::files::both_given;
use crate::yaml::Span;

/// Redis Cluster.
#[section]
pub(crate) struct RawCluster {
    /// Some of its nodes as `host:port`, a list or a text with commas; the others are discovered. Required.
    #[cfg_attr(test, schemars(example = &["10.0.0.1:6379", "10.0.0.2:6379"]))]
    #[cfg_attr(test, schemars(with = "StringOrList"))]
    nodes: Given<Vec<Spanned<String>>>,
}

/// Redis Sentinel.
#[section]
pub(crate) struct RawSentinel {
    /// Name of the primary in the Sentinels. Required.
    #[cfg_attr(test, schemars(example = &"mymaster"))]
    master: OptionalText,
    /// Sentinels as `host:port`. Required.
    #[cfg_attr(test, schemars(example = &["10.0.0.1:26379", "10.0.0.2:26379"]))]
    #[cfg_attr(test, schemars(with = "StringOrList"))]
    nodes: Given<Vec<Spanned<String>>>,
    /// User name for the Sentinels. Default: the user `default`.
    username: Option<Spanned<String>>,
    /// Password for the Sentinels. Default: none, no authentication.
    #[cfg_attr(test, schemars(example = &"${SENTINEL_PASSWORD}"))]
    password: Option<Spanned<String>>,
    /// File with the password, instead of `password`.
    #[cfg_attr(test, schemars(example = &"/run/secrets/sentinel"))]
    password_file: Option<Spanned<String>>,
}

/// The servers, before TLS is known.
#[derive(Debug)]
pub(super) enum FoundServers {
    Url(Url),
    Cluster(Vec<HostPort>),
    Sentinel(Sentinel),
}

/// Returns the servers that `raw` names. Reports errors.
pub(super) fn find(raw: &Spanned<RawRedis>, diagnostics: &mut Diagnostics) -> Result<FoundServers, Reported> {
    let redis = &raw.value;
    report_several_kinds(redis, diagnostics)?;
    match (&redis.sentinel, &redis.cluster, &redis.url) {
        (Some(sentinel), ..) => self::sentinel(sentinel, diagnostics).map(FoundServers::Sentinel),
        (None, Some(cluster), _) => self::cluster(cluster, diagnostics).map(FoundServers::Cluster),
        (None, None, Some(url)) => {
            report_beside_url(redis, diagnostics);
            url::check(url, diagnostics).map(FoundServers::Url)
        }
        (None, None, None) => one(redis, raw.span.key(), diagnostics).map(FoundServers::Url),
    }
}

/// Reports servers named in more than one way.
fn report_several_kinds(redis: &RawRedis, diagnostics: &mut Diagnostics) -> Result<(), Reported> {
    let sentinel = redis.sentinel.as_ref().map(|sentinel| ("sentinel", sentinel.span));
    let cluster = redis.cluster.as_ref().map(|cluster| ("cluster", cluster.span));
    let Some((winner, place)) = sentinel.or(cluster) else { return Ok(()) };
    let url = redis.url.as_ref().map(|url| ("url", url.span));
    let host = redis.host.as_ref().filter(|_| url.is_none()).map(|host| ("host", host.span));
    let port = redis.port.filter(|_| url.is_none()).map(|port| ("port", port.span));
    let cluster = cluster.filter(|_| sentinel.is_some() && url.is_none());
    let mut result = Ok(());
    for (name, at) in [url, host, port, cluster].into_iter().flatten() {
        result = Err(diagnostics
            .error(at.key(), format!("`{name}` and `{winner}` are both given"))
            .beside(", the other at", place.key())
            .reported_with("keep one of `url`, `host`, `cluster` and `sentinel`"));
    }
    result
}

/// Keys that a URL replaces.
fn report_beside_url(redis: &RawRedis, diagnostics: &mut Diagnostics) {
    let host = redis.host.as_ref().map(|part| ("host", part.span));
    for (name, at) in host.into_iter().chain(redis.port.map(|part| ("port", part.span))) {
        diagnostics
            .warn(at.key(), format!("`url` wins over `{name}`"))
            .ineffective()
            .help("remove it, or put it into the URL");
    }
}

/// Returns one server by its host and port.
fn one(redis: &RawRedis, at: Span, diagnostics: &mut Diagnostics) -> Result<Url, Reported> {
    let host = redis.host.as_ref().map_or("localhost", |host| host.value.trim());
    let at = redis.host.as_ref().map_or(at, |host| host.span);
    if host.contains("://") || host.contains('@') {
        return Err(diagnostics
            .error(at, "`host` must be a name or an address, without scheme and credentials")
            .reported_with("write a complete URL as `url`"));
    }
    let port = redis.port.map_or(6379, |port| port.value);
    url::from_host_and_port(
        host,
        port,
        redis.port.filter(|port| port.value == 0).map_or(at, |port| port.span),
        diagnostics,
    )
}

fn cluster(cluster: &Spanned<RawCluster>, diagnostics: &mut Diagnostics) -> Result<Vec<HostPort>, Reported> {
    nodes(&cluster.value.nodes, "cluster", 6379, cluster.span.key(), diagnostics)
}

fn sentinel(sentinel: &Spanned<RawSentinel>, diagnostics: &mut Diagnostics) -> Result<Sentinel, Reported> {
    let (at, raw) = (sentinel.span.key(), &sentinel.value);
    let nodes = nodes(&raw.nodes, "sentinel", 26379, at, diagnostics);
    let login = login(raw.username.as_ref(), raw.password.as_ref(), raw.password_file.as_ref(), diagnostics);
    if let (Some(name), Ok(login)) = (&raw.username, &login)
        && login.username.is_some()
        && login.password.is_none()
    {
        diagnostics
            .warn(name.span.key(), "`username` without a password: Sentinels are used without authentication")
            .help("add `password` or `password-file`");
    }
    let master = raw.master.get().map(str::to_owned).ok_or_else(|| {
        diagnostics.error(at, "`sentinel` needs `master`, the name of the primary in the Sentinels").reported_with(
            "it is the NAME in `sentinel monitor NAME …` of a Sentinel's configuration, often `mymaster`",
        )
    });
    Ok(Sentinel { master: master?, nodes: nodes?, login: login? })
}

fn nodes(
    list: &Given<Vec<Spanned<String>>>,
    of: &str,
    port: u16,
    at: Span,
    diagnostics: &mut Diagnostics,
) -> Result<Vec<HostPort>, Reported> {
    let Some(list) = list.checked()?.filter(|list| !list.is_empty()) else {
        return Err(diagnostics
            .error(at, format!("`{of}` needs `nodes`"))
            .reported_with(format!("{of}: {{nodes: [\"host1:{port}\", \"host2:{port}\"]}}")));
    };
    let nodes: Vec<_> = list.iter().map(|node| host_port(node, of, port, diagnostics)).collect();
    nodes.into_iter().collect()
}

/// Parses `host:port` with an IPv6 address in brackets. `default_port` is the port without one. Reports errors.
fn host_port(
    node: &Spanned<String>,
    of: &str,
    default_port: u16,
    diagnostics: &mut Diagnostics,
) -> Result<HostPort, Reported> {
    let text = node.value.trim();
    let address = text.rsplit_once(':').and_then(|(host, port)| {
        let port = port.parse::<u16>().ok().filter(|port| *port > 0)?;
        let inside = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        let fits = match inside {
            Some(address) => address.parse::<Ipv6Addr>().is_ok(),
            None => !host.is_empty() && !host.contains([':', '/', '@', '[', ']', ' ']),
        };
        fits.then(|| HostPort { host: inside.unwrap_or(host).to_owned(), port })
    });
    let Some(address) = address else {
        let shown = if text.contains('@') { "a login in it".to_owned() } else { format!("`{text}`") };
        let help = match text.split_once("://") {
            Some(_) => "nodes have no scheme: TLS is `tls: true`, who logs in `username` and `password`".to_owned(),
            None if text.contains('@') => "who logs in is `username` and `password` beside it".to_owned(),
            None if !text.is_empty() && !text.contains(':') => format!("`{text}:{default_port}`"),
            None => format!("`10.0.0.1:{default_port}`, `[2001:db8::1]:{default_port}`"),
        };
        return Err(diagnostics
            .error(node.span, format!("a node of `{of}` must be `host:port`, found {shown}"))
            .reported_with(help));
    };
    refuse_unspecified(&address.host, node.span, diagnostics)?;
    diagnostics.servers.add(&address.host, address.port, node.span);
    Ok(address)
}

/// Credentials beside the URL.
pub(super) fn credentials(
    redis: &RawRedis,
    servers: &FoundServers,
    diagnostics: &mut Diagnostics,
) -> Result<Login, Reported> {
    let (username, password) = (redis.username.as_ref(), redis.password.as_ref());
    let login = login(username, password, redis.password_file.as_ref(), diagnostics)?;
    let (url_has_username, url_has_password) = match servers {
        FoundServers::Url(url) => (url.has_username, url.has_password),
        _ => (false, false),
    };
    let second =
        username.filter(|_| url_has_username && login.username.is_some()).map(|at| ("user name", at)).or_else(|| {
            let password_key = password.or(redis.password_file.as_ref());
            password_key.filter(|_| url_has_password && login.password.is_some()).map(|at| ("password", at))
        });
    if let Some((what, key)) = second {
        return Err(diagnostics
            .error(key.span.key(), format!("the {what} is already in `url`"))
            .reported_with("remove one of the two"));
    }
    if let Some(name) = username.filter(|_| login.username.is_some() && login.password.is_none() && !url_has_password) {
        diagnostics
            .warn(name.span.key(), "`username` without a password: Redis is used without authentication")
            .help("add `password` or `password-file`");
    }
    Ok(login)
}

/// Returns the user name and the password, which may be in a file of its own. Empty texts count as absent:
/// `${REDIS_PASSWORD:}`.
pub(super) fn login(
    username: Option<&Spanned<String>>,
    password: Option<&Spanned<String>>,
    file: Option<&Spanned<String>>,
    diagnostics: &mut Diagnostics,
) -> Result<Login, Reported> {
    let non_empty =
        |text: Option<&Spanned<String>>| text.map(|text| text.value.clone()).filter(|text| !text.is_empty());
    let password = match (non_empty(password), file) {
        (Some(_), Some(file)) => {
            let other = password.map_or(file.span, |password| password.span);
            return Err(both_given(file.span, ("password", "password-file"), other, diagnostics));
        }
        (None, Some(file)) => Some(files::secret(file, "password file", diagnostics)?),
        (password, None) => password,
    };
    Ok(Login { username: non_empty(username), password })
}
