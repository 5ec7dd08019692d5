//! The documents of a text: dotted keys expanded, those of the active profiles joined into one tree.

use crate::diagnostics::Diagnostics;
use crate::source::dotted;
use crate::source::profiles::Profiles;
use crate::yaml::{Node, NodeKind, Places, Span};

/// Expands the dotted keys of the documents. Reports documents that are not maps of sections.
pub(crate) fn expand(documents: Vec<Node>, places: &mut Places, diagnostics: &mut Diagnostics) -> Vec<Node> {
    let mut expanded = Vec::with_capacity(documents.len());
    for document in documents.into_iter().filter(|document| !matches!(document.kind, NodeKind::Null)) {
        let document = dotted::expand(document, places, diagnostics);
        if matches!(document.kind, NodeKind::Map(_)) {
            expanded.push(document);
        } else {
            diagnostics
                .error(document.span, format!("expected a map of sections, found {}", document.describe()))
                .help("a smallest file is `routes: [{id: all, uri: \"echo:\", predicates: [Path=/**]}]`");
        }
    }
    expanded
}

/// Merges the documents that `profiles` select, later ones over earlier ones.
pub(crate) fn join(
    documents: Vec<Node>,
    profiles: &Profiles,
    env: &dyn Fn(&str) -> Option<String>,
    diagnostics: &mut Diagnostics,
) -> Node {
    let mut skipped = Vec::new();
    let counts: Vec<bool> =
        documents.iter().map(|document| profiles.accept(document, env, &mut skipped, diagnostics)).collect();
    if let Some((_, first)) = skipped.first() {
        let conditions: Vec<&str> = skipped.iter().map(|(condition, _)| condition.as_str()).collect();
        diagnostics
            .note(first.span, format!("documents for other profiles are skipped: {}", conditions.join("; ")))
            .help(format!(
                "active is `{}`; `--profile` or SPRING_PROFILES_ACTIVE says so",
                profiles.names().join(", ")
            ));
    }
    let mut whole: Option<Node> = None;
    for (document, _) in documents.into_iter().zip(counts).filter(|(_, counts)| *counts) {
        imports(&document, diagnostics);
        match &mut whole {
            None => whole = Some(document),
            Some(node) => dotted::merge(node, document),
        }
    }
    whole.unwrap_or(Node { span: Span::ROOT, kind: NodeKind::Map(Vec::new()) })
}

/// Reports `spring.config.import`, which is not supported.
fn imports(document: &Node, diagnostics: &mut Diagnostics) {
    let Some(import) = document.at(&["spring", "config", "import"]) else { return };
    let listed: Vec<&Node> = match &import.kind {
        NodeKind::Seq(items) => items.iter().collect(),
        _ => vec![import],
    };
    for location in listed.into_iter().filter(|node| node.scalar().is_some_and(|text| !text.is_empty())) {
        let text = location.scalar().unwrap_or_default();
        let (message, help) = (
            format!("`spring.config.import` is not read: `{text}`"),
            "put what the gateway needs of it into this file, or give it as environment variables",
        );
        match text.starts_with("optional:") {
            true => diagnostics.note(location.span, message).help(help),
            false => diagnostics.mistake(location.span, message).help(help),
        }
    }
}
