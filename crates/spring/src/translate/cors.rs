//! CORS: Spring keeps the fields of upstreams, and reads a text of `metadata.cors` as one name.

use crate::translate::Explicit;
use crate::tree::find;
use tollgate_document::diagnostics::Diagnostics;
use tollgate_document::yaml::{Node, NodeKind};

/// Keys of `metadata.cors` with lists of names, in the only spelling that Spring reads.
const LISTS: [&str; 3] = ["allowedMethods", "allowedHeaders", "exposedHeaders"];
const REASON: &str =
    "As in Spring, CORS fields of upstreams stay behind those of the policy; by default the policy's replace them.";

pub(super) fn translate(root: &mut Node, explicit: &mut Explicit, diagnostics: &mut Diagnostics) {
    let mut has_policy = ["globalcors", "cors"].iter().any(|section| find(root, &[section]).is_some());
    if let Some(NodeKind::Seq(routes)) = find(root, &["routes"]).map(|routes| &mut routes.kind) {
        for route in routes {
            has_policy |= find(route, &["cors"]).is_some();
            if let Some(policy) = find(route, &["metadata"]).and_then(|metadata| metadata.get("cors")) {
                has_policy = true;
                report_lists(policy, diagnostics);
            }
        }
    }
    if has_policy {
        explicit.add_missing(root, &["globalcors", "keep-upstream-headers"], "true", REASON);
    }
}

/// Reports texts with commas: a list here, one name in Spring.
fn report_lists(policy: &Node, diagnostics: &mut Diagnostics) {
    let NodeKind::Map(entries) = &policy.kind else { return };
    for (_, value) in entries.iter().filter(|(key, _)| LISTS.contains(&key.as_str())) {
        if let Some(text) = value.scalar().filter(|text| text.contains(',')) {
            diagnostics
                .warn(value.span, format!("Spring reads `{text}` as one name; here it is a list"))
                .help("write a list: `[a, b]`");
        }
    }
}
