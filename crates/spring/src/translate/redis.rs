//! Redis: in Spring, a topology wins over `host`, and `url` over its parts.

use crate::stand_ins::name as filter_name;
use crate::translate::ignore;
use crate::tree::{filter_lists, find};
use tollgate_document::diagnostics::Diagnostics;
use tollgate_document::yaml::{Node, NodeKind, Span};

/// Keys that a URL replaces in Spring.
const PARTS: [&str; 5] = ["host", "port", "username", "password", "database"];

pub(super) fn translate(root: &mut Node, diagnostics: &mut Diagnostics) {
    let Some(redis) = find(root, &["redis"]).filter(|redis| !matches!(redis.kind, NodeKind::Null)) else {
        return note_limits_in_memory(root, diagnostics);
    };
    let has = |redis: &Node, name: &str| redis.step(name).is_some_and(|node| !matches!(node.kind, NodeKind::Null));
    let topology = ["sentinel", "cluster"].into_iter().find(|name| has(redis, name));
    let has_tls = has_tls(redis);
    match (topology, has(redis, "url")) {
        (Some(topology), false) => {
            for name in ["host", "port", "cluster"].into_iter().filter(|name| *name != topology) {
                let message = format!("`{name}` and `{topology}` are both given; the latter wins, as in Spring");
                ignore(redis, name, message, "keep one of `url`, `host`, `cluster` and `sentinel`", diagnostics);
            }
        }
        (None, true) => {
            for name in PARTS {
                let message = format!("`url` wins over `{name}`, as in Spring");
                ignore(redis, name, message, "remove it, or put it into the URL", diagnostics);
            }
            if let Some(NodeKind::Scalar(url)) = find(redis, &["url"]).map(|url| &mut url.kind) {
                *url = with_password(url);
                if has_tls {
                    *url = with_tls(url);
                }
            }
        }
        _ => {}
    }
}

/// Notes that limits without Redis are kept in memory.
fn note_limits_in_memory(root: &mut Node, diagnostics: &mut Diagnostics) {
    let is_limiter = |filter: &Node| {
        filter_name(filter)
            .is_some_and(|(name, _)| ["RequestRateLimiter", "ConcurrencyLimiter"].contains(&name.as_str()))
    };
    let mut has_limits = false;
    filter_lists(root, &mut |filters| has_limits |= filters.iter().any(is_limiter));
    if has_limits {
        diagnostics
            .note(Span::ROOT, "without `spring.data.redis` limits are kept in memory; Spring would ask localhost:6379")
            .help("`spring.data.redis.host: localhost` shares them between gateways");
    }
}

/// Returns true if `tls` or `ssl` enables TLS.
fn has_tls(redis: &Node) -> bool {
    let is = |path: &[&str], words: [&str; 3]| {
        let text = redis.follow(path).and_then(Node::scalar);
        text.is_some_and(|text| words.contains(&text.trim().to_ascii_lowercase().as_str()))
    };
    let bundle = redis.step("ssl").and_then(|ssl| ssl.step("bundle")?.scalar());
    let has_bundle = bundle.is_some_and(|name| !name.trim().is_empty());
    let has_files = redis.step("tls").is_some_and(|tls| matches!(tls.kind, NodeKind::Map(_)));
    has_files
        || [["tls"].as_slice(), &["ssl"], &["ssl", "enabled"]].iter().any(|path| is(path, ["true", "yes", "on"]))
        || has_bundle && !is(&["ssl", "enabled"], ["false", "no", "off"])
}

/// Returns `url` with a word before `@` as the password, as Spring reads it, not as the user name.
fn with_password(url: &str) -> String {
    let authority = url.split_once("://").and_then(|(_, rest)| rest.split(['/', '?', '#']).next());
    match authority.and_then(|authority| authority.rsplit_once('@')) {
        Some((user, _)) if !user.is_empty() && !user.contains(':') => url.replacen("://", "://:", 1),
        _ => url.to_owned(),
    }
}

/// Replaces `redis://` with `rediss://`.
pub fn with_tls(url: &str) -> String {
    match url.split_once("://") {
        Some((scheme, rest)) if ["redis", "valkey"].contains(&scheme.trim().to_ascii_lowercase().as_str()) => {
            format!("{scheme}s://{rest}")
        }
        _ => url.to_owned(),
    }
}
