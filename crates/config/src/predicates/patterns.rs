//! Patterns with commas.

use crate::diagnostics::Diagnostics;
use crate::spec::PredicateSpec;

/// Warns of named arguments that look like several patterns: Spring reads a text with commas as one.
pub(super) fn warn(spec: &PredicateSpec<'_>, diagnostics: &mut Diagnostics) {
    for arg in spec.args.iter().filter(|arg| arg.name.is_some() && has_comma(&arg.value)) {
        let items: Vec<&str> = arg.value.split(',').map(str::trim).collect();
        diagnostics
            .warn(arg.span, format!("`{}` is one pattern with a comma, as in Spring", arg.value))
            .help(format!("write a list: `[{}]`", items.join(", ")));
    }
}

/// Replaces `//` in path patterns, with a warning: several slashes in the path of a request are one here.
pub(super) fn join_slashes(spec: &mut PredicateSpec<'_>, diagnostics: &mut Diagnostics) {
    for arg in spec.args.iter_mut().filter(|arg| arg.value.contains("//")) {
        let mut joined = arg.value.replace("//", "/");
        while joined.contains("//") {
            joined = joined.replace("//", "/");
        }
        diagnostics
            .mistake(
                arg.span,
                format!("`{}` is read as `{joined}`; in Spring only paths with `//` match it", arg.value),
            )
            .help(format!("write `{joined}`"));
        arg.value = joined;
    }
}

/// Returns true if there is a comma outside of braces.
fn has_comma(pattern: &str) -> bool {
    let mut depth = 0_usize;
    pattern.bytes().any(|byte| {
        match byte {
            b'{' => depth += 1,
            b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        byte == b',' && depth == 0
    })
}
