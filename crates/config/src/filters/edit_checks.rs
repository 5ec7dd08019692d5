//! Warnings of edits of one route that influence each other.

use tollgate_filters::edit::Edit;

use crate::diagnostics::Diagnostics;
use crate::spec::FilterSpec;

/// Warns of edits that another one makes ineffective. `edits` are in the order in which requests pass them.
pub(crate) fn check(edits: &[(&Edit, &FilterSpec)], diagnostics: &mut Diagnostics) {
    hosts(edits, diagnostics);
    prefixes(edits, diagnostics);
    duplicates(edits, diagnostics);
}

/// Warns of edits of `Host` without `PreserveHostHeader`: upstreams get the `Host` of their URI.
fn hosts(edits: &[(&Edit, &FilterSpec)], diagnostics: &mut Diagnostics) {
    if edits.iter().any(|(edit, _)| edit.preserves_host()) {
        return;
    }
    for (_, spec) in edits.iter().filter(|(edit, _)| edit.touches_host()) {
        diagnostics
            .mistake(spec.span, format!("`{}` has no effect: upstreams get the `Host` of their `uri`", spec.text))
            .ineffective()
            .help("use SetRequestHostHeader for another one, PreserveHostHeader for that of the request");
    }
}

/// Warns of a second prefix: Spring adds only the first.
fn prefixes(edits: &[(&Edit, &FilterSpec)], diagnostics: &mut Diagnostics) {
    for (_, spec) in edits.iter().filter(|(edit, _)| edit.is_prefix_path()).skip(1) {
        diagnostics
            .mistake(spec.span, format!("`{}` has no effect: another PrefixPath is before it", spec.text))
            .ineffective()
            .help("only the first PrefixPath of default-filters and a route's filters applies");
    }
}

/// Warns of headers that are added after their duplicates are removed: responses pass edits in reverse order.
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
                    format!(
                        "`{name}` is added after its duplicates are removed: responses pass filters in reverse order"
                    ),
                )
                .help("list DedupeResponseHeader before AddResponseHeader");
        }
    }
}
