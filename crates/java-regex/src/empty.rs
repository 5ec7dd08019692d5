//! Repetitions of what may be empty.

use regex_syntax::ParserBuilder;
use regex_syntax::hir::{Hir, HirKind};

/// Whether the expression, in Rust's dialect, repeats what may be empty and holds a group or a choice.
pub(super) fn repeats_nothing(pattern: &str) -> bool {
    let parsed = ParserBuilder::new().unicode(false).utf8(false).build().parse(pattern);
    parsed.is_ok_and(|hir| is_affected(&hir))
}

fn is_affected(hir: &Hir) -> bool {
    match hir.kind() {
        HirKind::Repetition(repetition) => {
            let (inner, repeats) = (&repetition.sub, repetition.max.is_none_or(|max| max > 1));
            let may_be_empty = inner.properties().minimum_len() == Some(0);
            let differs = inner.properties().explicit_captures_len() > 0 || chooses(inner);
            (repeats && may_be_empty && differs) || is_affected(inner)
        }
        HirKind::Capture(capture) => is_affected(&capture.sub),
        HirKind::Concat(parts) | HirKind::Alternation(parts) => parts.iter().any(is_affected),
        HirKind::Empty | HirKind::Literal(_) | HirKind::Class(_) | HirKind::Look(_) => false,
    }
}

/// Whether something else is tried before what takes most: an alternative, or less of a repetition.
fn chooses(hir: &Hir) -> bool {
    match hir.kind() {
        HirKind::Repetition(repetition) => !repetition.greedy || chooses(&repetition.sub),
        HirKind::Capture(capture) => chooses(&capture.sub),
        HirKind::Concat(parts) => parts.iter().any(chooses),
        HirKind::Alternation(_) => true,
        HirKind::Empty | HirKind::Literal(_) | HirKind::Class(_) | HirKind::Look(_) => false,
    }
}
