//! Repetitions of expressions that match the empty text.

use regex_syntax::ParserBuilder;
use regex_syntax::hir::{Hir, HirKind};

/// Returns true if `pattern`, in Rust's syntax, repeats an expression that matches the empty text and contains a group
/// or a choice.
pub(super) fn repeats_empty_match(pattern: &str) -> bool {
    let parsed = ParserBuilder::new().unicode(false).utf8(false).build().parse(pattern);
    parsed.is_ok_and(|hir| contains_repeated_empty_match(&hir))
}

fn contains_repeated_empty_match(hir: &Hir) -> bool {
    match hir.kind() {
        HirKind::Repetition(repetition) => {
            let (repeated, repeats) = (&repetition.sub, repetition.max.is_none_or(|max| max > 1));
            let may_be_empty = repeated.properties().minimum_len() == Some(0);
            let has_group_or_choice = repeated.properties().explicit_captures_len() > 0 || has_choice(repeated);
            (repeats && may_be_empty && has_group_or_choice) || contains_repeated_empty_match(repeated)
        }
        HirKind::Capture(capture) => contains_repeated_empty_match(&capture.sub),
        HirKind::Concat(parts) | HirKind::Alternation(parts) => parts.iter().any(contains_repeated_empty_match),
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
