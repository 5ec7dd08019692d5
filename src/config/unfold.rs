//! Spring's shapes to ours: the only place that knows where an application.yml keeps what Tollgate reads.
//!
//! In: the documents of a file. Out: one map with our sections at the top level, every node with its origin.

use super::de::canonical;
use super::dotted;
use super::problem::Sink;
use super::raw::sections;
use super::upstreams;
use super::yaml::{Kind, Node, Origin, Places};

/// Where Spring Cloud Gateway before 4.3 keeps its settings.
const OLD_ROOT: [&str; 3] = ["spring", "cloud", "gateway"];
/// Where it keeps them since.
const NEW_ROOT: [&str; 5] = ["spring", "cloud", "gateway", "server", "webflux"];

/// Whether one of `documents` is part of an application.yml: it has a `spring:` section. Profiles alone make none, our
/// own form takes them too.
pub(crate) fn is_spring(documents: &[Node]) -> bool {
    let is_ours = |key: &str| ["config", "profiles"].contains(&key.split('.').next().unwrap_or(key));
    documents.iter().any(|document| {
        let Kind::Map(entries) = &document.kind else { return false };
        entries.iter().any(|(key, value)| match (key.as_str(), &value.kind) {
            ("spring", Kind::Map(entries)) => entries.iter().any(|(key, _)| !is_ours(key)),
            (key, _) => key.strip_prefix("spring.").is_some_and(|rest| !is_ours(rest)),
        })
    })
}

/// Joins the documents that `profiles` make active, later ones over earlier ones, keys without dots.
pub(crate) fn join(documents: Vec<Node>, profiles: &[String], places: &mut Places, sink: &mut Sink) -> Node {
    let mut whole: Option<Node> = None;
    for document in documents {
        if matches!(document.kind, Kind::Null) {
            continue;
        }
        let document = dotted::expand(document, places, sink);
        if !matches!(document.kind, Kind::Map(_)) {
            sink.error(document.origin, format!("expected a map of sections, found {}", document.describe()))
                .help("a smallest file is `routes: [{id: all, uri: \"echo:\", predicates: [Path=/**]}]`");
            continue;
        }
        if let Some(condition) = document.at(&["spring", "config", "activate", "on-profile"]) {
            let expression = condition.scalar().unwrap_or_default();
            if !is_active(expression, profiles) {
                sink.info(condition.origin, format!("this document is skipped: profile `{expression}` is not active"))
                    .help("SPRING_PROFILES_ACTIVE names the active profiles");
                continue;
            }
        }
        match &mut whole {
            None => whole = Some(document),
            Some(node) => dotted::merge(node, document),
        }
    }
    whole.unwrap_or(Node { origin: Origin::ROOT, kind: Kind::Map(Vec::new()) })
}

/// A profile expression: `|` and `,` for or, `&` for and, `!` for not.
fn is_active(expression: &str, profiles: &[String]) -> bool {
    expression.split(['|', ',']).any(|all| {
        all.split('&').map(|one| one.trim().trim_matches(['(', ')'])).all(|one| match one.strip_prefix('!') {
            Some(name) => !profiles.iter().any(|p| p == name.trim()),
            None => profiles.iter().any(|p| p == one),
        })
    })
}

/// Brings what stands under Spring's roots to the top level and drops the sections that are not ours.
pub(crate) fn unfold(mut whole: Node, sink: &mut Sink) -> Node {
    if !sink.is_spring {
        // Profiles have done their work.
        take(&mut whole, &["spring"]);
        return whole;
    }
    let origin = whole.origin;
    let new_root = take(&mut whole, &NEW_ROOT);
    let old_root = take(&mut whole, &OLD_ROOT).and_then(|node| without_servers(node, sink));
    if let (Some(old), Some(_)) = (&old_root, &new_root) {
        sink.warn(old.origin.key(), "settings stand under both `spring.cloud.gateway` and `spring.cloud.gateway.server.webflux`; the latter win")
            .help("move everything to `spring.cloud.gateway.server.webflux`, the only root that Spring Cloud Gateway 5 reads");
    }
    let new_redis = take(&mut whole, &["spring", "data", "redis"]);
    let old_redis = take(&mut whole, &["spring", "redis"]);
    if let Some(old) = &old_redis {
        let (at, both) =
            (old.origin.key(), if new_redis.is_some() { "; what stands under both is taken from there" } else { "" });
        sink.warn(
            at,
            format!("`spring.redis` is what Spring Boot 2 reads; since then it is `spring.data.redis`{both}"),
        )
        .help("move it to `spring.data.redis`");
    }

    let mut result = Node { origin, kind: Kind::Map(Vec::new()) };
    for root in [old_root, new_root].into_iter().flatten() {
        dotted::merge(&mut result, root);
    }
    for redis in [old_redis, new_redis].into_iter().flatten() {
        let at = redis.origin;
        dotted::merge(&mut result, Node { origin: at, kind: Kind::Map(vec![("redis".to_owned(), redis)]) });
    }
    lend_bundles(&mut whole, &mut result);
    upstreams::take_over(&mut whole, &mut result, sink);
    let Kind::Map(entries) = whole.kind else { return result };
    let mut skipped: Vec<(String, Origin)> = Vec::new();
    for (key, value) in entries {
        if sections().iter().any(|section| canonical(section) == canonical(&key)) {
            let at = value.origin;
            dotted::merge(&mut result, Node { origin: at, kind: Kind::Map(vec![(key, value)]) });
        } else {
            leaves(&key, &value, &mut skipped);
        }
    }
    report_skipped(&skipped, sink);
    result
}

/// Sections whose `ssl` may name one of `spring.ssl.bundle`.
const BUNDLE_USERS: [&str; 2] = ["redis", "httpclient"];

/// Puts `spring.ssl.bundle` beside the names of bundles, for whoever looks them up there.
fn lend_bundles(whole: &mut Node, result: &mut Node) {
    let mut bundles = None;
    for user in BUNDLE_USERS {
        let Some(ssl) = find(result, &[user, "ssl"]) else { continue };
        let names_one = find(ssl, &["bundle"]).is_some() || find(ssl, &["ssl-bundle"]).is_some();
        let Kind::Map(entries) = &mut ssl.kind else { continue };
        if names_one {
            bundles = bundles.or_else(|| take(whole, &["spring", "ssl", "bundle"]));
            entries.extend(bundles.iter().map(|bundles| ("bundles".to_owned(), bundles.clone())));
        }
    }
}

/// The node at `path` below `node`.
pub(crate) fn find<'n>(node: &'n mut Node, path: &[&str]) -> Option<&'n mut Node> {
    let Some((first, rest)) = path.split_first() else { return Some(node) };
    let Kind::Map(entries) = &mut node.kind else { return None };
    let (_, child) = entries.iter_mut().find(|(key, _)| canonical(key) == canonical(first))?;
    find(child, rest)
}

/// One line about everything that is not ours.
pub(crate) fn report_skipped(skipped: &[(String, Origin)], sink: &mut Sink) {
    if let Some((_, first)) = skipped.first() {
        let mut names: Vec<&str> = skipped.iter().map(|(name, _)| name.as_str()).collect();
        names.dedup();
        sink.info(first.key(), format!("settings that are not Tollgate's are skipped: {}", names.join(", ")));
    }
}

/// Names what is left of a section: `spring.application`, `logging`, …
fn leaves(key: &str, value: &Node, into: &mut Vec<(String, Origin)>) {
    match &value.kind {
        Kind::Map(entries) if key == "spring" => {
            for (name, value) in entries {
                // What was taken out leaves an empty map behind.
                if !is_empty(value) && name != "config" && name != "profiles" {
                    into.push((format!("spring.{name}"), value.origin));
                }
            }
        }
        _ => into.push((key.to_owned(), value.origin)),
    }
}

fn is_empty(node: &Node) -> bool {
    match &node.kind {
        Kind::Map(entries) => entries.iter().all(|(_, value)| is_empty(value)),
        _ => false,
    }
}

/// Takes the map at `path` out of `node`.
pub(crate) fn take(node: &mut Node, path: &[&str]) -> Option<Node> {
    let (first, rest) = path.split_first()?;
    let Kind::Map(entries) = &mut node.kind else { return None };
    let at = entries.iter().position(|(key, _)| canonical(key) == canonical(first))?;
    if rest.is_empty() {
        return Some(entries.remove(at).1);
    }
    take(&mut entries[at].1, rest)
}

/// The old root without its `server`, which holds other flavours of the gateway, not a listener. `None` when nothing else stands there.
fn without_servers(mut root: Node, sink: &mut Sink) -> Option<Node> {
    for (path, name) in [(["server", "webmvc"].as_slice(), "server.webmvc"), (["mvc"].as_slice(), "mvc")] {
        if let Some(other) = take(&mut root, path) {
            sink.warn(
                other.origin.key(),
                format!("`spring.cloud.gateway.{name}` belongs to the servlet gateway and is not read"),
            )
            .help("move its routes to `spring.cloud.gateway.server.webflux`");
        }
    }
    take(&mut root, &["server"]);
    if is_empty(&root) || matches!(root.kind, Kind::Null) { None } else { Some(root) }
}
