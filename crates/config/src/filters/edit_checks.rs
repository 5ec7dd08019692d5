//! What edits of one route make of each other where its author may not expect it.

use tollgate_filters::edit::Edit;

use crate::diagnostics::Diagnostics;
use crate::spec::FilterSpec;

/// Warns of edits, in the order in which requests meet them, that another one leaves without effect.
pub(crate) fn check(edits: &[(&Edit, &FilterSpec)], diagnostics: &mut Diagnostics) {
    hosts(edits, diagnostics);
    prefixes(edits, diagnostics);
    duplicates(edits, diagnostics);
}

/// A `Host` that is set goes upstream only where the request's own does.
fn hosts(edits: &[(&Edit, &FilterSpec)], diagnostics: &mut Diagnostics) {
    if edits.iter().any(|(edit, _)| edit.preserves_host()) {
        return;
    }
    for (_, spec) in edits.iter().filter(|(edit, _)| edit.touches_host()) {
        diagnostics
            .mistake(spec.span, format!("`{}` has no effect: upstreams get the `Host` of their `uri`", spec.text))
            .ineffective()
            .help("SetRequestHostHeader sends another one, PreserveHostHeader that of the request");
    }
}

/// A request gets one prefix.
fn prefixes(edits: &[(&Edit, &FilterSpec)], diagnostics: &mut Diagnostics) {
    for (_, spec) in edits.iter().filter(|(edit, _)| edit.is_prefix_path()).skip(1) {
        diagnostics
            .mistake(spec.span, format!("`{}` has no effect: another PrefixPath comes before it", spec.text))
            .ineffective()
            .help("of default-filters and a route's filters, the first PrefixPath alone applies");
    }
}

/// Responses meet edits in reverse: what is added after duplicates were removed may be one.
fn duplicates(edits: &[(&Edit, &FilterSpec)], diagnostics: &mut Diagnostics) {
    for (at, (dedupe, spec)) in edits.iter().enumerate() {
        let added_later = edits[..at]
            .iter()
            .filter_map(|(edit, _)| edit.added_response_header())
            .find(|name| dedupe.deduplicates(name));
        if let Some(name) = added_later {
            diagnostics
                .warn(
                    spec.span,
                    format!("`{name}` is added after its duplicates were removed: answers meet filters in reverse"),
                )
                .help("list DedupeResponseHeader before AddResponseHeader");
        }
    }
}
