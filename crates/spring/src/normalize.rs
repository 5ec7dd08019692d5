//! Normalizes an `application.yml` to our own form: one map with our sections at the top level.
//!
//! Only this module knows the paths of an `application.yml`. Every node keeps its span.

use std::collections::BTreeMap;

use crate::Form;
use crate::source::dotted;
use crate::source::merge::{Replaced, Source};
use crate::tree::{add, add_missing, find, is_empty, merge_ours, take};
use crate::{misspelled, older_versions, properties, service_discovery, servlet};
use tollgate_document::diagnostics::Diagnostics;
use tollgate_document::yaml::key::same_name;
use tollgate_document::yaml::{NameIndex, Node, NodeKind, Span};

/// Root of the settings before Spring Cloud Gateway 4.3.
const OLD_ROOT: [&str; 3] = ["spring", "cloud", "gateway"];
/// Root of the settings since Spring Cloud Gateway 4.3.
const NEW_ROOT: [&str; 5] = ["spring", "cloud", "gateway", "server", "webflux"];

/// Settings outside the root, and their names here.
const MOVED: [(&[&str], &str); 2] =
    [(&["spring", "webflux", "base-path"], "base-path"), (&["spring", "webflux", "apiversion"], "api-version")];

/// Sections that may name bundles of `spring.ssl.bundle`, and the keys that do so.
const BUNDLES: [(&[&str], &[&str]); 4] = [
    (&["redis", "ssl"], &["bundle"]),
    (&["httpclient", "ssl"], &["ssl-bundle"]),
    (&["server", "ssl"], &["bundle", "server-name-bundles"]),
    (&["management", "server", "ssl"], &["bundle", "server-name-bundles"]),
];

/// Sections that protect an application and have no counterpart here: what passes without them, and the remedy.
const PROTECTION: [(&[&str], &str, &str); 2] = [
    (
        &["spring", "security"],
        "requests that Spring Security rejects",
        "authenticate in front of the gateway or in the upstreams; `jwt` and a key resolver `jwt:sub` limit by the user of a token",
    ),
    // Its rules come from Java, a dashboard or a data source.
    (
        &["spring", "cloud", "sentinel"],
        "requests that its flow rules reject",
        "`RequestRateLimiter` limits requests by route and key, and `CircuitBreaker` replaces degrade rules",
    ),
];

/// Section of the gateway's own settings in an `application.yml`, so that they cannot be taken for the application's.
const OWN_ROOT: &str = "tollgate";

/// Sections that are read at the top level of an `application.yml`. All others there are the application's: it may have
/// a `jwt` or a `cors` of its own.
pub(super) const AT_TOP: [&str; 7] =
    ["server", "management", "resilience4j", "eureka", "upstreams", "key-resolvers", "filter-beans"];

/// A configuration in our own form.
pub struct Normalized {
    /// The map of our sections.
    pub root: Node,
    /// True if the routes stand under the root that Spring Cloud Gateway reads up to 4.3. There a `/` at the end of a
    /// path is ignored unless `matchTrailingSlash` is false.
    pub ignores_trailing_slash: bool,
}

/// Moves the settings under Spring's roots to the top level and drops the sections that are not ours.
pub(crate) fn normalize(
    mut whole: Node,
    form: Form,
    sections: &[&str],
    mut replaced: Replaced,
    diagnostics: &mut Diagnostics,
) -> Normalized {
    dotted::drop_own_values(&mut whole);
    let our_section = take(&mut whole, &[OWN_ROOT]).filter(|section| is_section(section, diagnostics));
    if form == Form::Own {
        // Only profiles are below it, and they are applied already.
        take(&mut whole, &["spring"]);
        our_section.into_iter().for_each(|section| merge_ours(&mut whole, section, &mut replaced, diagnostics));
        replaced.report(&whole, diagnostics);
        return Normalized { root: whole, ignores_trailing_slash: false };
    }
    let mut result = Node { span: whole.span, kind: NodeKind::Map(Vec::new()) };
    older_versions::move_to_resilience4j(&mut whole, &mut result);
    let has_old_routes = move_roots(&mut whole, &mut result, &mut replaced, diagnostics);
    for (path, name) in MOVED {
        if let Some(node) = take(&mut whole, path) {
            add(&mut result, &[name], node);
        }
    }
    let phase = take(&mut whole, &["spring", "lifecycle", "timeout-per-shutdown-phase"]);
    let eureka_is_off = find(&mut whole, &["eureka"]).is_some_and(|node| service_discovery::is_off(node));
    for name in AT_TOP.into_iter().filter(|name| *name != "eureka" || !eureka_is_off) {
        if let Some(node) = take(&mut whole, &[name]) {
            add(&mut result, &[name], node);
        }
    }
    older_versions::rename_traces(&mut result);
    our_section.into_iter().for_each(|section| merge_ours(&mut result, section, &mut replaced, diagnostics));
    if let Some(phase) = phase
        && let Some(timeout) = add_missing(&mut result, &["server", "shutdown-timeout"])
    {
        *timeout = phase;
    }
    copy_bundles(&mut whole, &mut result);
    service_discovery::move_to_top_level(&mut whole, &mut result, diagnostics);
    older_versions::move_servers(&mut whole, &mut result);
    service_discovery::name_registrations(&mut whole, &mut result);
    drop_protection(&mut whole, diagnostics);
    misspelled::report_roots(&mut whole, diagnostics);
    misspelled::report_misplaced(&mut whole, diagnostics);
    misspelled::report_sections(&mut whole, diagnostics);
    properties::drop_used(&mut whole, &result);
    report_application_sections(&mut whole, sections, diagnostics);
    report_rest(whole, diagnostics);
    replaced.report(&result, diagnostics);
    Normalized { root: result, ignores_trailing_slash: has_old_routes }
}

/// Drops the sections of [`PROTECTION`] that are not switched off, with a warning of each.
fn drop_protection(whole: &mut Node, diagnostics: &mut Diagnostics) {
    for (path, passing, remedy) in PROTECTION {
        if let Some(section) = take(whole, path).filter(|section| !service_discovery::is_off(section)) {
            let message = format!("`{}` is not read: {passing} are let in here", path.join("."));
            diagnostics.warn(section.span.key(), message).help(remedy);
        }
    }
}

/// Returns true for a map; reports other values.
fn is_section(node: &Node, diagnostics: &mut Diagnostics) -> bool {
    let is_section = matches!(node.kind, NodeKind::Map(_));
    if !is_section && !matches!(node.kind, NodeKind::Null) {
        diagnostics
            .error(node.span, format!("`{OWN_ROOT}` must be a map of sections, found {}", node.describe()))
            .help(format!("for example `{OWN_ROOT}: {{memory: {{max-keys: 100000}}}}`"));
    }
    is_section
}

/// Removes the sections that have the name of one of ours but belong to the application, and says so in one note per file.
fn report_application_sections(whole: &mut Node, sections: &[&str], diagnostics: &mut Diagnostics) {
    let NodeKind::Map(entries) = &mut whole.kind else { return };
    // Spring's own sections that are still in the tree have been switched off.
    let is_ours = |key: &str| {
        let names = |names: &[&str]| names.iter().any(|name| same_name(name, key));
        names(sections) && !names(&AT_TOP)
    };
    let application_sections =
        entries.extract_if(.., |(key, _)| is_ours(key)).map(|(name, node)| (name, node.span.key()));
    let mut files: BTreeMap<usize, Vec<(String, Span)>> = BTreeMap::new();
    for (name, span) in application_sections {
        files.entry(span.file()).or_default().push((name, span));
    }
    for sections in files.into_values() {
        let Some((first, span)) = sections.first().cloned() else { continue };
        diagnostics
            .note(span, "sections at the top level that are the application's own are skipped: ")
            .sections(sections)
            .help(format!("a setting of the gateway goes below `{OWN_ROOT}:`, such as `{OWN_ROOT}: {{{first}: …}}`"));
    }
}

/// Moves the contents of both roots, then Redis and the circuit breakers. Returns true if the routes are those of the
/// old root.
fn move_roots(whole: &mut Node, result: &mut Node, replaced: &mut Replaced, diagnostics: &mut Diagnostics) -> bool {
    let mut new_root = take(whole, &NEW_ROOT);
    let servlet = servlet::take_settings(whole, diagnostics);
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
    let has_routes = |root: &Option<Node>| root.as_ref().is_some_and(|root| root.get("routes").is_some());
    if let Some(routes) = servlet.as_ref().and_then(|root| root.get("routes"))
        && [&old_root, &new_root].into_iter().any(has_routes)
    {
        diagnostics
            .warn(
                routes.span.key(),
                "routes stand both here, for the servlet gateway, and under the root of the reactive one, which win",
            )
            .help("keep the list that the application uses");
    }
    let has_old_routes = has_routes(&old_root) && !has_routes(&new_root);
    let redis = take_redis(whole, redis_is_off, diagnostics);
    let mut names = NameIndex::relaxed();
    for root in [servlet, old_root, new_root].into_iter().flatten() {
        replaced.merge((result, &mut names), root, "", Source { form: Form::Own, is_of_profile: false }, diagnostics);
    }
    for node in redis.into_iter().flatten() {
        add(result, &["redis"], node);
    }
    if let Some(breakers) = take(whole, &["spring", "cloud", "circuitbreaker", "resilience4j"]) {
        add(result, &["resilience4j"], breakers);
    }
    has_old_routes
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
    let is_off = switch.is_text("false");
    if is_off {
        diagnostics.note(switch.span.key(), "`redis.enabled: false`: limits are kept in memory");
    }
    is_off
}

/// Copies `spring.ssl.bundle` into the sections that name a bundle.
fn copy_bundles(whole: &mut Node, result: &mut Node) {
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
pub fn report_skipped(skipped: &[(String, Span)], diagnostics: &mut Diagnostics) {
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
    if let Some(NodeKind::Map(others)) = take(&mut root, &["server"]).map(|server| server.kind) {
        for (name, node) in others {
            diagnostics
                .mistake(
                    node.span.key(),
                    format!("`spring.cloud.gateway.server.{name}` is not known, to Spring either"),
                )
                .help("did you mean `webflux`?");
        }
    }
    if is_empty(&root) || matches!(root.kind, NodeKind::Null) { None } else { Some(root) }
}
