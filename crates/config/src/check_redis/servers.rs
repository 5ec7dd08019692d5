//! Which servers: exactly one of `url`, `host`, `cluster` and `sentinel`.

use std::net::Ipv6Addr;

use tollgate_limiter::store::redis::{HostPort, Sentinel};

use super::url::{self, Url, everywhere};
use crate::problem::Sink;
use crate::raw_server::{RawCluster, RawRedis, RawSentinel};
use crate::spot::Spot;
use crate::yaml::Origin;

/// The servers, before TLS is known.
#[derive(Debug)]
pub(super) enum Found {
    Url(Url),
    Cluster(Vec<HostPort>),
    Sentinel(Sentinel),
}

impl Found {
    /// Whether nothing but a URL counts: to Spring it says everything, and be it by its silence.
    pub(super) fn says_all(&self, sink: &Sink) -> bool {
        sink.is_spring && matches!(self, Self::Url(url) if url.is_written)
    }
}

/// The servers that `raw` names; `None` when they cannot be used, which `sink` then knows.
pub(super) fn find(raw: &Spot<RawRedis>, sink: &mut Sink) -> Option<Found> {
    let redis = &raw.value;
    several(redis, sink)?;
    match (&redis.sentinel, &redis.cluster, &redis.url) {
        (Some(sentinel), ..) => self::sentinel(sentinel, sink).map(Found::Sentinel),
        (None, Some(cluster), _) => self::cluster(cluster, sink).map(Found::Cluster),
        (None, None, Some(url)) => {
            beside_url(redis, sink);
            url::check(url, sink).map(Found::Url)
        }
        (None, None, None) => one(redis, raw.origin.key(), sink).map(Found::Url),
    }
}

/// Complains when servers are named in more than one way. Spring takes `sentinel` first, then `cluster`.
fn several(redis: &RawRedis, sink: &mut Sink) -> Option<()> {
    let (sentinel, cluster) = (redis.sentinel.as_ref().map(|at| at.origin), redis.cluster.as_ref().map(|at| at.origin));
    let Some(winner) = sentinel.map(|_| "sentinel").or(cluster.map(|_| "cluster")) else { return Some(()) };
    let help = "leave one of `url`, `host`, `cluster` and `sentinel`";
    if let Some(url) = &redis.url {
        sink.error(url.origin.key(), format!("`url` stands beside `{winner}`, which says where Redis is")).help(help);
        return None;
    }
    let host = redis.host.as_ref().map(|host| ("host", host.origin));
    let port = redis.port.map(|port| ("port", port.origin));
    let cluster = cluster.filter(|_| sentinel.is_some()).map(|at| ("cluster", at));
    let mut clashes = [host, port, cluster].into_iter().flatten().peekable();
    let is_clear = sink.is_spring || clashes.peek().is_none();
    for (name, at) in clashes {
        let wins = if sink.is_spring { ", which wins, as in Spring" } else { ", which says where Redis is" };
        sink.mistake(at.key(), format!("`{name}` stands beside `{winner}`{wins}")).help(help);
    }
    is_clear.then_some(())
}

/// What a URL leaves nothing for.
fn beside_url(redis: &RawRedis, sink: &mut Sink) {
    let text = |part: &Option<Spot<String>>| part.as_ref().map(|part| part.origin);
    let parts = [("host", text(&redis.host)), ("port", redis.port.map(|part| part.origin))];
    let in_spring = [
        ("username", text(&redis.username)),
        ("password", text(&redis.password)),
        ("database", redis.database.map(|part| part.origin)),
    ];
    let (in_spring, wins) = if sink.is_spring { (in_spring.as_slice(), ", as in Spring") } else { (&[][..], "") };
    for (name, at) in parts.iter().chain(in_spring) {
        if let Some(at) = at {
            sink.warn(at.key(), format!("`url` wins over `{name}`{wins}"))
                .idle()
                .help("remove it, or put it into the URL");
        }
    }
}

/// One server by its host and port.
fn one(redis: &RawRedis, at: Origin, sink: &mut Sink) -> Option<Url> {
    let host = redis.host.as_ref().map_or("localhost", |host| host.value.trim());
    let at = redis.host.as_ref().map_or(at, |host| host.origin);
    if host.contains("://") || host.contains('@') {
        sink.error(at, "`host` is a name or an address, without a scheme or a login")
            .help("`url` takes the whole of it");
        return None;
    }
    let port = redis.port.map_or(6379, |port| port.value);
    url::of_parts(host, port, redis.port.filter(|port| port.value == 0).map_or(at, |port| port.origin), sink)
}

fn cluster(cluster: &Spot<RawCluster>, sink: &mut Sink) -> Option<Vec<HostPort>> {
    nodes(&cluster.value.nodes, "cluster", 6379, cluster.origin.key(), sink)
}

fn sentinel(sentinel: &Spot<RawSentinel>, sink: &mut Sink) -> Option<Sentinel> {
    let (at, raw) = (sentinel.origin.key(), &sentinel.value);
    let nodes = nodes(&raw.nodes, "sentinel", 26379, at, sink);
    let login = super::login(raw.username.as_ref(), raw.password.as_ref(), raw.password_file.as_ref(), sink);
    if let (Some(name), Some(login)) = (&raw.username, &login)
        && login.username.is_some()
        && login.password.is_none()
    {
        sink.warn(name.origin.key(), "`username` without a password: nobody logs in to a Sentinel")
            .help("add `password` or `password-file`");
    }
    let master = raw.master.as_ref().map(|name| name.value.trim().to_owned()).filter(|name| !name.is_empty());
    if master.is_none() {
        sink.error(at, "`sentinel` needs `master`: the name under which Sentinels watch the primary")
            .help("`sentinel monitor NAME …` in a Sentinel's configuration says it; `mymaster` is usual");
    }
    Some(Sentinel { master: master?, nodes: nodes?, login: login? })
}

fn nodes(list: &[Spot<String>], of: &str, port: u16, at: Origin, sink: &mut Sink) -> Option<Vec<HostPort>> {
    if list.is_empty() {
        sink.error(at, format!("`{of}` needs `nodes`"))
            .help(format!("{of}: {{nodes: [\"host1:{port}\", \"host2:{port}\"]}}"));
        return None;
    }
    let found: Vec<_> = list.iter().map(|node| host_port(node, of, port, sink)).collect();
    found.into_iter().collect()
}

/// `host:port`, an IPv6 address in brackets.
fn host_port(node: &Spot<String>, of: &str, usual: u16, sink: &mut Sink) -> Option<HostPort> {
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
        sink.error(node.origin, format!("a node of `{of}` is `host:port`, found {shown}")).help(help);
        return None;
    };
    everywhere(&found.host, node.origin, sink)?;
    Some(found)
}
