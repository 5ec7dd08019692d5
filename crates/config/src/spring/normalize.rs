//! Normalizes an `application.yml` to our own form: one map with our sections at the top level.
//!
//! Only this module knows the paths of an `application.yml`. Every node keeps its span.

use crate::diagnostics::Diagnostics;
use crate::source::dotted;
use crate::spring::service_discovery;
use crate::spring::tree::{find, is_empty, section, take};
use crate::yaml::key::canonical;
use crate::yaml::{Node, NodeKind, Places, Span};

/// Root of the settings before Spring Cloud Gateway 4.3.
const OLD_ROOT: [&str; 3] = ["spring", "cloud", "gateway"];
/// Root of the settings since Spring Cloud Gateway 4.3.
const NEW_ROOT: [&str; 5] = ["spring", "cloud", "gateway", "server", "webflux"];

/// Settings outside the root, and their names here.
const MOVED: [(&[&str], &str); 2] =
    [(&["spring", "webflux", "base-path"], "base-path"), (&["spring", "webflux", "apiversion"], "api-version")];

/// Sections that may name bundles of `spring.ssl.bundle`, and the keys that do so.
const BUNDLES: [(&[&str], &[&str]); 3] = [
    (&["redis", "ssl"], &["bundle"]),
    (&["httpclient", "ssl"], &["ssl-bundle"]),
    (&["server", "ssl"], &["bundle", "server-name-bundles"]),
];

/// Returns true if one of `documents` is part of an `application.yml`: it has a `spring:` section. Profiles alone do not
/// count, since our own form has them too.
pub(crate) fn is_spring(documents: &[Node]) -> bool {
    let is_ours = |key: &str| ["config", "profiles"].contains(&key.split('.').next().unwrap_or(key));
    documents.iter().any(|document| {
        let NodeKind::Map(entries) = &document.kind else { return false };
        entries.iter().any(|(key, value)| match (key.as_str(), &value.kind) {
            ("spring", NodeKind::Map(entries)) => entries.iter().any(|(key, _)| !is_ours(key)),
            (key, _) => key.strip_prefix("spring.").is_some_and(|rest| !is_ours(rest)),
        })
    })
}

/// Moves the settings under Spring's roots to the top level and drops the sections that are not ours.
pub(crate) fn normalize(
    mut whole: Node,
    sections: &[&str],
    places: &mut Places,
    diagnostics: &mut Diagnostics,
) -> Node {
    if !diagnostics.is_spring {
        // Only profiles are below it, and they are applied already.
        take(&mut whole, &["spring"]);
        return whole;
    }
    let mut result = Node { span: whole.span, kind: NodeKind::Map(Vec::new()) };
    move_roots(&mut whole, &mut result, diagnostics);
    for (path, name) in MOVED {
        if let Some(node) = take(&mut whole, path) {
            add(&mut result, name, node);
        }
    }
    let phase = take(&mut whole, &["spring", "lifecycle", "timeout-per-shutdown-phase"]);
    let eureka_is_off = find(&mut whole, &["eureka"]).is_some_and(|node| service_discovery::is_off(node));
    let NodeKind::Map(entries) = &mut whole.kind else { return result };
    let is_off = |key: &str| eureka_is_off && canonical(key) == "eureka";
    // Registries stand under `spring.cloud`.
    let is_ours = |key: &str| {
        let is_it = |section: &&str| canonical(section) == canonical(key);
        sections.iter().any(is_it) && !service_discovery::is_registry(key) && !is_off(key)
    };
    for (key, value) in entries.extract_if(.., |(key, _)| is_ours(key)) {
        add(&mut result, &key, value);
    }
    if let Some(phase) = phase
        && let Some(server) = section(&mut result, "server", places)
        && !server.iter().any(|(key, _)| canonical(key) == "shutdowntimeout")
    {
        server.push(("shutdown-timeout".to_owned(), phase));
    }
    lend_bundles(&mut whole, &mut result);
    service_discovery::move_to_top_level(&mut whole, &mut result, diagnostics);
    drop_security(&mut whole, diagnostics);
    report_rest(whole, diagnostics);
    result
}

/// Merges `node` into `result` as its section `name`.
fn add(result: &mut Node, name: &str, node: Node) {
    dotted::merge(result, Node { span: node.span, kind: NodeKind::Map(vec![(name.to_owned(), node)]) });
}

/// Moves the contents of both roots, then Redis and the circuit breakers.
fn move_roots(whole: &mut Node, result: &mut Node, diagnostics: &mut Diagnostics) {
    let mut new_root = take(whole, &NEW_ROOT);
    let mut old_root = take(whole, &OLD_ROOT).and_then(|node| without_servers(node, diagnostics));
    let switches = [&mut new_root, &mut old_root].map(|root| take(root.as_mut()?, &["redis", "enabled"]));
    let redis_is_off = switches.into_iter().flatten().any(|switch| is_redis_off(&switch, diagnostics));
    for root in [&mut new_root, &mut old_root].into_iter().flatten() {
        take(root, &["redis"]);
    }
    if let (Some(old), Some(_)) = (&old_root, &new_root) {
        diagnostics.warn(old.span.key(), "settings stand under both `spring.cloud.gateway` and `spring.cloud.gateway.server.webflux`; the latter win")
            .help("move everything to `spring.cloud.gateway.server.webflux`, the only root that Spring Cloud Gateway 5 reads");
    }
    let redis = take_redis(whole, redis_is_off, diagnostics);
    for root in [old_root, new_root].into_iter().flatten() {
        dotted::merge(result, root);
    }
    for node in redis.into_iter().flatten() {
        add(result, "redis", node);
    }
    if let Some(breakers) = take(whole, &["spring", "cloud", "circuitbreaker", "resilience4j"]) {
        add(result, "resilience4j", breakers);
    }
}

/// Takes the settings of Redis, those of Spring Boot 2 first. Warns of these. Drops both if Redis is off.
fn take_redis(whole: &mut Node, is_off: bool, diagnostics: &mut Diagnostics) -> [Option<Node>; 2] {
    let new = take(whole, &["spring", "data", "redis"]).filter(|_| !is_off);
    let old = take(whole, &["spring", "redis"]).filter(|_| !is_off);
    if let Some(old) = &old {
        let both = if new.is_some() { "; settings under both are taken from there" } else { "" };
        diagnostics
            .warn(
                old.span.key(),
                format!("`spring.redis` is read by Spring Boot 2 only; since then it is `spring.data.redis`{both}"),
            )
            .help("move it to `spring.data.redis`");
    }
    [old, new]
}

fn drop_security(whole: &mut Node, diagnostics: &mut Diagnostics) {
    if let Some(security) = take(whole, &["spring", "security"]) {
        diagnostics.warn(security.span.key(), "`spring.security` is not read: requests that Spring Security rejects are let in here")
            .help("authenticate in front of the gateway or in the upstreams; `jwt` and a key resolver `jwt:sub` limit by the user of a token");
    }
}

/// Reports the sections that nothing has taken.
fn report_rest(whole: Node, diagnostics: &mut Diagnostics) {
    let NodeKind::Map(entries) = whole.kind else { return };
    let mut skipped: Vec<(String, Span)> = Vec::new();
    for (key, value) in entries {
        leaves(&key, &value, &mut skipped);
    }
    report_skipped(&skipped, diagnostics);
}

/// Returns true if the gateway's own `redis.enabled` is false, which keeps limits in memory.
fn is_redis_off(switch: &Node, diagnostics: &mut Diagnostics) -> bool {
    let is_off = switch.scalar().is_some_and(|text| text.trim().eq_ignore_ascii_case("false"));
    if is_off {
        diagnostics.note(switch.span.key(), "`redis.enabled: false`: limits are kept in memory");
    }
    is_off
}

/// Copies `spring.ssl.bundle` into the sections that name a bundle.
fn lend_bundles(whole: &mut Node, result: &mut Node) {
    let mut lent = false;
    for (path, names) in BUNDLES {
        if let Some(ssl) = find(result, path)
            && names.iter().any(|name| find(ssl, &[name]).is_some())
            && let Some(bundles) = find(whole, &["spring", "ssl", "bundle"])
            && let NodeKind::Map(entries) = &mut ssl.kind
        {
            entries.push(("bundles".to_owned(), bundles.clone()));
            lent = true;
        }
    }
    if lent {
        take(whole, &["spring", "ssl", "bundle"]);
    }
}

/// Reports all settings that are not ours, in one note.
pub(crate) fn report_skipped(skipped: &[(String, Span)], diagnostics: &mut Diagnostics) {
    if let Some((_, first)) = skipped.first() {
        let mut names: Vec<&str> = skipped.iter().map(|(name, _)| name.as_str()).collect();
        names.dedup();
        diagnostics.note(first.key(), format!("settings that are not Tollgate's are skipped: {}", names.join(", ")));
    }
}

/// Collects the names of the remaining sections: `spring.application`, `logging`, …
fn leaves(key: &str, value: &Node, into: &mut Vec<(String, Span)>) {
    match &value.kind {
        NodeKind::Map(entries) if key == "spring" => {
            for (name, value) in entries {
                // A moved section leaves an empty map.
                if !is_empty(value) && name != "config" && name != "profiles" {
                    into.push((format!("spring.{name}"), value.span));
                }
            }
        }
        _ => into.push((key.to_owned(), value.span)),
    }
}

/// Returns the old root without `server`, which there holds other kinds of the gateway, not a listener. `None` if
/// nothing else is below it.
fn without_servers(mut root: Node, diagnostics: &mut Diagnostics) -> Option<Node> {
    for (path, name) in [(["server", "webmvc"].as_slice(), "server.webmvc"), (["mvc"].as_slice(), "mvc")] {
        if let Some(other) = take(&mut root, path) {
            diagnostics
                .warn(
                    other.span.key(),
                    format!("`spring.cloud.gateway.{name}` belongs to the servlet gateway and is not read"),
                )
                .help("move its routes to `spring.cloud.gateway.server.webflux`");
        }
    }
    take(&mut root, &["server"]);
    if is_empty(&root) || matches!(root.kind, NodeKind::Null) { None } else { Some(root) }
}
