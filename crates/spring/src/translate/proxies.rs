//! Forwarded addresses: behind trusted proxies, Spring forwards only theirs.

use crate::translate::Explicit;
use crate::tree::find;
use tollgate_document::diagnostics::Diagnostics;
use tollgate_document::yaml::Node;

const REASON: &str = "As in Spring, untrusted addresses are not forwarded, including those of clients.";

pub(super) fn translate(root: &mut Node, explicit: &mut Explicit, diagnostics: &mut Diagnostics) {
    let Some(proxies) = find(root, &["trusted-proxies"]).map(|proxies| proxies.span) else { return };
    let is_added = explicit.add_missing(root, &["x-forwarded", "trusted-only"], "true", REASON);
    let mut is_on = |path: &[&str]| find(root, path).and_then(|node| node.scalar()) != Some("false");
    let appends = ["enabled", "for-enabled", "for-append"].iter().all(|key| is_on(&["x-forwarded", key]));
    if is_added && (appends || is_on(&["forwarded", "enabled"])) {
        diagnostics
            .note(proxies.key(), "as in Spring, untrusted addresses are not forwarded, including those of clients")
            .help("`x-forwarded.trusted-only: false` forwards all addresses from a trusted proxy");
    }
}
