//! Routes that Spring runs and our own form refuses: several of one id, and load balancers of the application.

use std::collections::HashMap;

use crate::translate::Explicit;
use crate::tree::find;
use tollgate_document::diagnostics::Diagnostics;
use tollgate_document::yaml::{Node, NodeKind, Span};

const SECOND: &str = "Was the id of a route before it; limits and metrics are counted by id.";
const BALANCER: &str = "Was a load balancer of the application, in Java.";

pub(super) fn translate(root: &mut Node, explicit: &mut Explicit, diagnostics: &mut Diagnostics) {
    let Some(NodeKind::Seq(routes)) = find(root, &["routes"]).map(|routes| &mut routes.kind) else { return };
    let mut ids: HashMap<String, Span> = HashMap::new();
    for (position, route) in routes.iter_mut().enumerate() {
        if route.step("enabled").is_some_and(|node| node.is_text("false")) {
            continue;
        }
        if let Some(id) = id(route) {
            tell_apart(id, position, &mut ids, explicit, diagnostics);
        }
        if let Some(uri) = find(route, &["uri"]) {
            balancer(uri, explicit, diagnostics);
        }
    }
}

/// Returns the node whose text begins with the id of a route: `id`, or the whole of a route on one line.
fn id(route: &mut Node) -> Option<&mut Node> {
    if matches!(route.kind, NodeKind::Scalar(_)) { Some(route) } else { find(route, &["id"]) }
}

/// Gives a later route of one id its position as a part of the id: Spring runs both.
fn tell_apart(
    node: &mut Node,
    position: usize,
    ids: &mut HashMap<String, Span>,
    explicit: &mut Explicit,
    diagnostics: &mut Diagnostics,
) {
    let at = node.span;
    let NodeKind::Scalar(text) = &mut node.kind else { return };
    let (id, rest) = text.split_once('=').map_or((text.as_str(), None), |(id, rest)| (id, Some(rest)));
    let id = id.trim();
    if id.is_empty() {
        return;
    }
    let Some(first) = ids.get(id) else {
        ids.insert(id.to_owned(), at);
        return;
    };
    let mut unique_id = format!("{id}@{position}");
    diagnostics
        .warn(
            at,
            format!(
                "duplicate route id `{id}`: both routes run, as in Spring; limits and metrics call this one `{unique_id}`"
            ),
        )
        .beside(", the other is at", *first)
        .help("give each route its own id");
    explicit.explain(at, SECOND);
    if let Some(rest) = rest {
        unique_id = format!("{unique_id}={rest}");
    }
    *text = unique_id;
}

/// Reads the scheme of an application's own load balancer, such as `grayLb://`, as `lb`.
fn balancer(uri: &mut Node, explicit: &mut Explicit, diagnostics: &mut Diagnostics) {
    let at = uri.span;
    let NodeKind::Scalar(text) = &mut uri.kind else { return };
    let Some((scheme, name)) = text.trim().split_once("://") else { return };
    let is_word = scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
    if scheme.eq_ignore_ascii_case("lb") || !is_word || !scheme.to_ascii_lowercase().ends_with("lb") {
        return;
    }
    diagnostics
        .warn(at, format!("`{scheme}` is a load balancer of the application, in Java; it is read as `lb`"))
        .help("`upstreams.NAME.balance` selects a method, and routes with the predicate `Header` or `Weight` select versions");
    explicit.explain(at, BALANCER);
    *text = format!("lb://{name}");
}
