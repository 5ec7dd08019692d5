//! Repetitions of expressions that match the empty text.

use regex_syntax::ParserBuilder;
use regex_syntax::hir::{Hir, HirKind};

/// Returns true if `pattern`, in Rust's syntax, repeats an expression that matches the empty text and contains a group
/// or a choice.
pub(super) fn repeats_empty_match(pattern: &str) -> bool {
    let parsed = ParserBuilder::new().unicode(false).utf8(false).build().parse(pattern);
    parsed.is_ok_and(|hir| contains_one(&hir))
}

fn contains_one(hir: &Hir) -> bool {
    match hir.kind() {
        HirKind::Repetition(repetition) => {
            let (inner, repeats) = (&repetition.sub, repetition.max.is_none_or(|max| max > 1));
            let may_be_empty = inner.properties().minimum_len() == Some(0);
            let differs = inner.properties().explicit_captures_len() > 0 || has_choice(inner);
            (repeats && may_be_empty && differs) || contains_one(inner)
        }
        HirKind::Capture(capture) => contains_one(&capture.sub),
        HirKind::Concat(parts) | HirKind::Alternation(parts) => parts.iter().any(contains_one),
        HirKind::Empty | HirKind::Literal(_) | HirKind::Class(_) | HirKind::Look(_) => false,
    }
}

/// Returns true if the longest match is not tried first: there is an alternation or a reluctant repetition.
fn has_choice(hir: &Hir) -> bool {
    match hir.kind() {
        HirKind::Repetition(repetition) => !repetition.greedy || has_choice(&repetition.sub),
        HirKind::Capture(capture) => has_choice(&capture.sub),
        HirKind::Concat(parts) => parts.iter().any(has_choice),
        HirKind::Alternation(_) => true,
        HirKind::Empty | HirKind::Literal(_) | HirKind::Class(_) | HirKind::Look(_) => false,
    }
}
