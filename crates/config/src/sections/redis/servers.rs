//! Servers of Redis: exactly one of `url`, `host`, `cluster` and `sentinel`.

use std::net::Ipv6Addr;

use serde::Deserialize;
use tollgate_limiter::store::redis::{HostPort, Sentinel};

use crate::de::spanned::Spanned;
use crate::diagnostics::Diagnostics;
use crate::sections::redis::credentials;
use crate::sections::redis::url::{Url, everywhere};
use crate::sections::redis::{RawRedis, url};
#[cfg(test)]
use crate::sections::scalars::StringOrList;
use crate::yaml::Span;

/// Redis Cluster.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawCluster {
    /// Some of its nodes as `host:port`, a list or a text with commas; the others are discovered. Required.
    #[cfg_attr(test, schemars(example = &["10.0.0.1:6379", "10.0.0.2:6379"]))]
    #[cfg_attr(test, schemars(with = "StringOrList"))]
    nodes: Vec<Spanned<String>>,
}

/// Redis Sentinel.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawSentinel {
    /// Name of the primary in the Sentinels. Required.
    #[cfg_attr(test, schemars(example = &"mymaster"))]
    master: Option<Spanned<String>>,
    /// Sentinels as `host:port`. Required.
    #[cfg_attr(test, schemars(example = &["10.0.0.1:26379", "10.0.0.2:26379"]))]
    #[cfg_attr(test, schemars(with = "StringOrList"))]
    nodes: Vec<Spanned<String>>,
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

/// Returns the servers that `raw` names. Reports errors; `None` if they cannot be used.
pub(super) fn find(raw: &Spanned<RawRedis>, diagnostics: &mut Diagnostics) -> Option<FoundServers> {
    let redis = &raw.value;
    several(redis, diagnostics)?;
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
fn several(redis: &RawRedis, diagnostics: &mut Diagnostics) -> Option<()> {
    let (sentinel, cluster) = (redis.sentinel.as_ref().map(|at| at.span), redis.cluster.as_ref().map(|at| at.span));
    let Some(winner) = sentinel.map(|_| "sentinel").or(cluster.map(|_| "cluster")) else { return Some(()) };
    let help = "keep one of `url`, `host`, `cluster` and `sentinel`";
    let place = sentinel.or(cluster).unwrap_or(Span::ROOT).key();
    if let Some(url) = &redis.url {
        diagnostics
            .error(url.span.key(), format!("`url` and `{winner}` are both given"))
            .beside(", the other at", place)
            .help(help);
        return None;
    }
    let host = redis.host.as_ref().map(|host| ("host", host.span));
    let port = redis.port.map(|port| ("port", port.span));
    let cluster = cluster.filter(|_| sentinel.is_some()).map(|at| ("cluster", at));
    let mut clashes = [host, port, cluster].into_iter().flatten().peekable();
    let is_clear = clashes.peek().is_none();
    for (name, at) in clashes {
        diagnostics
            .error(at.key(), format!("`{name}` and `{winner}` are both given"))
            .beside(", the other at", place)
            .help(help);
    }
    is_clear.then_some(())
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
fn one(redis: &RawRedis, at: Span, diagnostics: &mut Diagnostics) -> Option<Url> {
    let host = redis.host.as_ref().map_or("localhost", |host| host.value.trim());
    let at = redis.host.as_ref().map_or(at, |host| host.span);
    if host.contains("://") || host.contains('@') {
        diagnostics
            .error(at, "`host` must be a name or an address, without scheme and credentials")
            .help("write a complete URL as `url`");
        return None;
    }
    let port = redis.port.map_or(6379, |port| port.value);
    url::from_host_and_port(
        host,
        port,
        redis.port.filter(|port| port.value == 0).map_or(at, |port| port.span),
        diagnostics,
    )
}

fn cluster(cluster: &Spanned<RawCluster>, diagnostics: &mut Diagnostics) -> Option<Vec<HostPort>> {
    nodes(&cluster.value.nodes, "cluster", 6379, cluster.span.key(), diagnostics)
}

fn sentinel(sentinel: &Spanned<RawSentinel>, diagnostics: &mut Diagnostics) -> Option<Sentinel> {
    let (at, raw) = (sentinel.span.key(), &sentinel.value);
    let nodes = nodes(&raw.nodes, "sentinel", 26379, at, diagnostics);
    let login =
        credentials::login(raw.username.as_ref(), raw.password.as_ref(), raw.password_file.as_ref(), diagnostics);
    if let (Some(name), Some(login)) = (&raw.username, &login)
        && login.username.is_some()
        && login.password.is_none()
    {
        diagnostics
            .warn(name.span.key(), "`username` without a password: Sentinels are used without authentication")
            .help("add `password` or `password-file`");
    }
    let master = raw.master.as_ref().map(|name| name.value.trim().to_owned()).filter(|name| !name.is_empty());
    if master.is_none() {
        diagnostics
            .error(at, "`sentinel` needs `master`, the name of the primary in the Sentinels")
            .help("it is the NAME in `sentinel monitor NAME …` of a Sentinel's configuration, often `mymaster`");
    }
    Some(Sentinel { master: master?, nodes: nodes?, login: login? })
}

fn nodes(
    list: &[Spanned<String>],
    of: &str,
    port: u16,
    at: Span,
    diagnostics: &mut Diagnostics,
) -> Option<Vec<HostPort>> {
    if list.is_empty() {
        diagnostics
            .error(at, format!("`{of}` needs `nodes`"))
            .help(format!("{of}: {{nodes: [\"host1:{port}\", \"host2:{port}\"]}}"));
        return None;
    }
    let found: Vec<_> = list.iter().map(|node| host_port(node, of, port, diagnostics)).collect();
    found.into_iter().collect()
}

/// Parses `host:port` with an IPv6 address in brackets. `usual` is the port without one. Reports errors.
fn host_port(node: &Spanned<String>, of: &str, usual: u16, diagnostics: &mut Diagnostics) -> Option<HostPort> {
    let text = node.value.trim();
    let found = text.rsplit_once(':').and_then(|(host, port)| {
        let port = port.parse::<u16>().ok().filter(|port| *port > 0)?;
        let inside = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        let fits = match inside {
            Some(address) => address.parse::<Ipv6Addr>().is_ok(),
            None => !host.is_empty() && !host.contains([':', '/', '@', '[', ']', ' ']),
        };
        fits.then(|| HostPort { host: inside.unwrap_or(host).to_owned(), port })
    });
    let Some(found) = found else {
        let shown = if text.contains('@') { "a login in it".to_owned() } else { format!("`{text}`") };
        let help = match text.split_once("://") {
            Some(_) => "nodes have no scheme: TLS is `tls: true`, who logs in `username` and `password`".to_owned(),
            None if text.contains('@') => "who logs in is `username` and `password` beside it".to_owned(),
            None if !text.is_empty() && !text.contains(':') => format!("`{text}:{usual}`"),
            None => format!("`10.0.0.1:{usual}`, `[2001:db8::1]:{usual}`"),
        };
        diagnostics.error(node.span, format!("a node of `{of}` must be `host:port`, found {shown}")).help(help);
        return None;
    };
    everywhere(&found.host, node.span, diagnostics)?;
    Some(found)
}
