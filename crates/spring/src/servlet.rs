//! `spring.cloud.gateway.server.webmvc`, and `spring.cloud.gateway.mvc` up to 4.2: the servlet gateway, whose settings become
//! those of the reactive one.

use crate::source::dotted;
use crate::tree::{add, find, is_empty, lists, take};
use tollgate_document::diagnostics::Diagnostics;
use tollgate_document::yaml::key::same_name;
use tollgate_document::yaml::{Node, NodeKind};

/// Roots of its settings; those of the later one win.
const ROOTS: [&[&str]; 2] =
    [&["spring", "cloud", "gateway", "mvc"], &["spring", "cloud", "gateway", "server", "webmvc"]];

/// Settings with another name at the reactive gateway. `http-client` itself is `httpclient` in any spelling.
const RENAMED: [(&[&str], &[&str]); 4] = [
    (&["http-client", "read-timeout"], &["http-client", "response-timeout"]),
    (&["http-client", "ssl-bundle"], &["http-client", "ssl", "ssl-bundle"]),
    (&["x-forwarded-request-headers-filter"], &["x-forwarded"]),
    (&["forwarded-request-headers-filter"], &["forwarded"]),
];

/// Takes the settings of the servlet gateway, as those of the reactive one. `None` without any.
pub(super) fn take_settings(whole: &mut Node, diagnostics: &mut Diagnostics) -> Option<Node> {
    let mut settings: Option<Node> = None;
    for root in ROOTS {
        let Some(node) = take(whole, root).filter(|node| !is_empty(node)) else { continue };
        let name = root.join(".");
        diagnostics
            .note(
                node.span.key(),
                format!("settings of the servlet gateway, `{name}`, are read as those of the reactive one"),
            )
            .help("predicates and filters of the same name mean the same; `check` names the others");
        match &mut settings {
            Some(settings) => dotted::merge(settings, node),
            None => settings = Some(node),
        }
    }
    let mut settings = settings?;
    for (from, to) in RENAMED {
        if let Some(value) = take(&mut settings, from) {
            add(&mut settings, to, value);
        }
    }
    // Of Java.
    take(&mut settings, &["http-client", "type"]);
    list_routes(&mut settings);
    lists(&mut settings, &["predicates", "filters"], &mut |list| {
        if let NodeKind::Seq(items) = &mut list.kind {
            items.iter_mut().for_each(use_reactive_names);
        }
    });
    Some(settings)
}

/// Appends the routes of `routes-map`, a map by id, to `routes`.
fn list_routes(settings: &mut Node) {
    let Some(Node { kind: NodeKind::Map(routes), span }) = take(settings, &["routes-map"]) else { return };
    let mut listed = Vec::with_capacity(routes.len());
    for (name, mut route) in routes {
        if let NodeKind::Map(fields) = &mut route.kind
            && !fields.iter().any(|(key, _)| same_name(key, "id"))
        {
            fields.insert(0, ("id".to_owned(), Node { span: route.span.again(), kind: NodeKind::Scalar(name) }));
        }
        listed.push(route);
    }
    match find(settings, &["routes"]).map(|routes| &mut routes.kind) {
        Some(NodeKind::Seq(routes)) => routes.append(&mut listed),
        _ => add(settings, &["routes"], Node { span, kind: NodeKind::Seq(listed) }),
    }
}

/// Gives a predicate or filter the name, and the arguments, that it has at the reactive gateway. The servlet gateway takes names
/// that begin with a small letter.
fn use_reactive_names(item: &mut Node) {
    if let NodeKind::Scalar(text) = &mut item.kind {
        let end = text.find('=').unwrap_or(text.len());
        *text = format!("{}{}", reactive_name(&text[..end]), &text[end..]);
        return;
    }
    let Some(NodeKind::Scalar(name)) = find(item, &["name"]).map(|name| &mut name.kind) else { return };
    *name = reactive_name(name);
    let is_breaker = name == "CircuitBreaker";
    let Some(NodeKind::Map(args)) = find(item, &["args"]).map(|args| &mut args.kind).filter(|_| is_breaker) else {
        return;
    };
    for (key, value) in args {
        if key == "id" {
            "name".clone_into(key);
        } else if same_name(key, "fallback-path")
            && let NodeKind::Scalar(path) = &mut value.kind
        {
            "fallbackUri".clone_into(key);
            path.insert_str(0, "forward:");
        }
    }
}

fn reactive_name(name: &str) -> String {
    let name = name.trim();
    let mut letters = name.chars();
    let name: String = letters.next().into_iter().flat_map(char::to_uppercase).chain(letters).collect();
    if name == "PreserveHost" { "PreserveHostHeader".to_owned() } else { name }
}
