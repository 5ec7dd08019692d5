//! Misspelled roots of the gateway's settings, such as `spring.cloud.gatway`. Routes below them would be dropped.

use crate::tree::{find, is_empty, take};
use tollgate_document::diagnostics::Diagnostics;
use tollgate_document::yaml::key::{canonical, same_name};
use tollgate_document::yaml::{Node, NodeKind};

/// Root of the gateway's settings.
const ROOT: &str = "spring.cloud.gateway";
/// Keys that identify a section as the gateway's.
const GATEWAY_KEYS: [&str; 5] = ["routes", "default-filters", "globalcors", "discovery", "server"];

/// Further sections that the gateway reads, each with keys that tell it from a section of the application; none for a name that
/// no application has.
const SECTIONS: [(&[&str], &[&str]); 12] = [
    (&["spring", "profiles"], &["active", "include", "group"]),
    (&["spring", "data", "redis"], &[]),
    (&["spring", "redis"], &["host", "port", "url", "password", "cluster", "sentinel"]),
    (&["spring", "config"], &["import", "activate", "additional-location"]),
    (&["server"], &["port", "ssl", "address", "http2", "netty", "shutdown"]),
    (&["management"], &["server", "endpoints", "endpoint", "metrics", "tracing"]),
    (&["eureka"], &["client", "instance"]),
    (&["resilience4j"], &["circuitbreaker", "timelimiter"]),
    (&["key-resolvers"], &[]),
    (&["filter-beans"], &[]),
    (&["tollgate"], &[]),
    (&["spring", "config", "activate", "on-profile"], &[]),
];

/// Removes the sections whose path resembles [`ROOT`], and warns of each. Called after the root itself is taken.
pub(super) fn report_roots(whole: &mut Node, diagnostics: &mut Diagnostics) {
    // An application may have a `string` of its own: only one with a `cloud` below it is meant to be `spring`.
    let is_root = |node: &Node| keys(node).any(|key| same_name(key, "cloud") || is_misspelled(key, "cloud"));
    take_misspelled(whole, &["spring"], &is_root, diagnostics);
    take_misspelled(whole, &["spring", "cloud"], &|node| node.entries().is_some(), diagnostics);
    take_misspelled(whole, &["spring", "cloud", "gateway"], &|node| node.entries().is_some(), diagnostics);
    for path in [["spring", "gateway"], ["cloud", "gateway"]] {
        let tells = |key: &str| GATEWAY_KEYS.iter().any(|telling| same_name(telling, key));
        if find(whole, &path).is_some_and(|node| keys(node).any(tells))
            && let Some(node) = take(whole, &path)
        {
            report(&node, &path.join("."), ROOT, diagnostics);
            if find(whole, &path[..1]).is_some_and(|above| is_empty(above)) {
                take(whole, &path[..1]);
            }
        }
    }
}

/// Removes lists of routes and filters that stand outside of [`ROOT`], and warns of each.
pub(super) fn report_misplaced(whole: &mut Node, diagnostics: &mut Diagnostics) {
    for above in [&[][..], &["gateway"], &["spring"], &["spring", "cloud"]] {
        for (name, telling) in [("routes", "predicates"), ("default-filters", "name")] {
            let path: Vec<&str> = above.iter().copied().chain([name]).collect();
            if find(whole, &path).is_some_and(|list| has_items(list, telling))
                && let Some(list) = take(whole, &path)
            {
                report(&list, &path.join("."), &format!("{ROOT}.{name}"), diagnostics);
            }
        }
        if !above.is_empty() && find(whole, above).is_some_and(|section| is_empty(section)) {
            take(whole, above);
        }
    }
}

/// Returns true for a list with an item that has the key `telling`, or is a text such as `AddRequestHeader=X-A, b`.
fn has_items(list: &Node, telling: &str) -> bool {
    let NodeKind::Seq(items) = &list.kind else { return false };
    items.iter().any(|item| item.get(telling).is_some() || item.scalar().is_some_and(|text| text.contains('=')))
}

/// Removes other sections whose names resemble one that the gateway reads, and warns of each.
pub(super) fn report_sections(whole: &mut Node, diagnostics: &mut Diagnostics) {
    for (path, telling) in SECTIONS {
        let tells = |key: &str| telling.iter().any(|inner| same_name(inner, key));
        let selects = |node: &Node| telling.is_empty() || keys(node).any(tells);
        take_misspelled(whole, path, &selects, diagnostics);
    }
    // `upstream` may be the application's; one with endpoints is not.
    let has_endpoints = |node: &Node| keys(node).any(|key| ["endpoints", "dns"].contains(&key));
    let selects =
        |node: &Node| node.entries().is_some_and(|entries| entries.iter().any(|(_, upstream)| has_endpoints(upstream)));
    take_misspelled(whole, &["upstreams"], &selects, diagnostics);
}

/// Returns the part of `spring.cloud.gateway` that an unknown key at the top level resembles.
pub fn meaning(key: &str) -> Option<&'static str> {
    match canonical(key).as_str() {
        "cloud" => Some("spring.cloud"),
        _ => is_misspelled(key, "spring").then_some("spring"),
    }
}

/// Removes the neighbours of the last key of `path` that resemble it and that `selects`, and warns of each.
fn take_misspelled(whole: &mut Node, path: &[&str], selects: &dyn Fn(&Node) -> bool, diagnostics: &mut Diagnostics) {
    let Some((name, above)) = path.split_last() else { return };
    let Some(NodeKind::Map(entries)) = find(whole, above).map(|node| &mut node.kind) else { return };
    for (key, node) in entries.extract_if(.., |(key, node)| is_misspelled(key, name) && selects(node)) {
        let written = above.iter().copied().chain([key.as_str()]).collect::<Vec<_>>().join(".");
        report(&node, &written, &path.join("."), diagnostics);
    }
}

fn report(node: &Node, written: &str, meant: &str, diagnostics: &mut Diagnostics) {
    let effect = if node.entries().is_some() { ": everything below it is dropped" } else { ", and has no effect" };
    diagnostics
        .mistake(node.span.key(), format!("`{written}` is not known, to Spring either{effect}"))
        .help(format!("did you mean `{meant}`?"));
}

/// Returns true for another name with two typing errors at most, one in short names.
fn is_misspelled(key: &str, name: &str) -> bool {
    let most = name.len() / 3;
    let (key, name) = (canonical(key), canonical(name));
    // Most keys are told apart by their lengths.
    key.len().abs_diff(name.len()) <= 3 * most
        && key.chars().count().abs_diff(name.chars().count()) <= most
        && (1..=most).contains(&strsim::damerau_levenshtein(&key, &name))
}

fn keys(node: &Node) -> impl Iterator<Item = &str> {
    node.entries().unwrap_or_default().iter().map(|(key, _)| key.as_str())
}
