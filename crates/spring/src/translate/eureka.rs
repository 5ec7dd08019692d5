//! TLS to Eureka, which Spring enables only if the file says so.

use crate::translate::ignore;
use crate::tree::find;
use tollgate_document::diagnostics::Diagnostics;
use tollgate_document::yaml::key::canonical;
use tollgate_document::yaml::{Node, NodeKind};

pub(super) fn translate(root: &mut Node, diagnostics: &mut Diagnostics) {
    let Some(client) = find(root, &["eureka", "client"]) else { return };
    if client.step("tls").is_some_and(has_only_stores) {
        let message = "the stores have no effect without `enabled: true`, as in Spring".to_owned();
        ignore(client, "tls", message, "add `enabled: true` here", diagnostics);
    }
}

/// Returns true for a section with the keys of Spring Cloud alone, at least one, and without `enabled`.
fn has_only_stores(tls: &Node) -> bool {
    let NodeKind::Map(entries) = &tls.kind else { return false };
    let is_of_store = |key: &str| {
        let key = canonical(key);
        key.starts_with("keystore") || key.starts_with("truststore") || key == "keypassword"
    };
    !entries.is_empty() && entries.iter().all(|(key, _)| is_of_store(key))
}
