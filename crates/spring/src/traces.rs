//! Settings of traces, as Spring Boot 3.4 and 4 name them, under their older names.

use crate::tree::{add, find, is_empty, take};
use tollgate_document::yaml::Node;

/// Settings and their older names. Those of later ones win.
const RENAMED: [(&[&str], &[&str]); 4] = [
    (&["opentelemetry", "tracing", "export", "otlp"], &["otlp", "tracing"]),
    (&["tracing", "export", "enabled"], &["tracing", "enabled"]),
    (&["tracing", "export", "otlp", "enabled"], &["tracing", "enabled"]),
    (&["otlp", "tracing", "export", "enabled"], &["tracing", "enabled"]),
];

/// Renames the settings of traces in the section `management` of `root`.
pub(super) fn rename(root: &mut Node) {
    let Some(management) = find(root, &["management"]) else { return };
    for (from, to) in RENAMED {
        let Some(value) = take(management, from) else { continue };
        // Sections without another setting go, too.
        for end in (1..from.len()).rev() {
            if find(management, &from[..end]).is_some_and(|section| is_empty(section)) {
                take(management, &from[..end]);
            }
        }
        add(management, to, value);
    }
}
