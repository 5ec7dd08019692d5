//! Suggestions for names that are not known.

use std::cell::Cell;

use crate::yaml::key::{same_name, words};

/// Work for the suggestions of one report: letters that are read and pairs of letters that are compared. A file may have as many
/// unknown names as known ones; names beyond the budget have no suggestion.
#[derive(Debug)]
pub(super) struct Budget(Cell<usize>);

/// Work of a new budget.
const MAX_WORK: usize = 20_000_000;
/// Names that a suggestion lists: more than any part of the schema has.
const MAX_KNOWN: usize = 100;
/// Bytes of a name that is compared by its words.
const MAX_LENGTH: usize = 100;

impl Default for Budget {
    fn default() -> Self {
        Self(Cell::new(MAX_WORK))
    }
}

impl Budget {
    /// Takes `work` from the budget. Returns false, and ends the budget, if there is less.
    fn take(&self, work: usize) -> bool {
        let rest = self.0.get().checked_sub(work);
        self.0.set(rest.unwrap_or_default());
        rest.is_some()
    }
}

/// Returns the candidate most similar to `typed`, if it is close enough to be a typing error. The edit distance is
/// at most a third of the shorter name's length, or 1 for short names.
pub(super) fn closest<'c>(
    typed: &str,
    candidates: impl IntoIterator<Item = &'c str>,
    budget: &Budget,
) -> Option<&'c str> {
    let lower_case = typed.to_ascii_lowercase();
    let (letters, length) = (letter_set(&lower_case), lower_case.chars().count());
    let most = |candidate: &str| 1.max(candidate.len().min(lower_case.len()) / 3);
    // Most names are told apart by their lengths and letters alone: an edit adds one and removes one.
    let may_be_close = |candidate: &str| {
        let most = most(candidate);
        candidate.chars().count().abs_diff(length) <= most
            && (letter_set(candidate) ^ letters).count_ones() as usize <= 2 * most
    };
    let is_compared = |candidate: &&str| {
        #[cfg(debug_assertions)]
        crate::steps::count();
        budget.take(1 + candidate.len())
    };
    candidates
        .into_iter()
        .take_while(is_compared)
        .filter(|candidate| may_be_close(candidate) && budget.take(candidate.len().saturating_mul(lower_case.len())))
        .map(|candidate| (strsim::damerau_levenshtein(&lower_case, &candidate.to_ascii_lowercase()), candidate))
        .filter(|(distance, candidate)| *distance <= most(candidate))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Returns the set of the letters and digits of `text` in lower case, one bit for each.
pub(super) fn letter_set(text: &str) -> u128 {
    text.chars().fold(0, |set, c| set | 1 << (c.to_ascii_lowercase() as u32 & 127))
}

/// Returns true if `typed` is probably `meant` with typing errors, and not a name of its own: at most one edit in six letters.
pub fn is_misspelled(typed: &str, meant: &str) -> bool {
    6 * strsim::damerau_levenshtein(&typed.to_ascii_lowercase(), &meant.to_ascii_lowercase()) <= typed.len()
}

/// Suggestions for one name at most.
const MAX_SIMILAR: usize = 5;

/// Returns the candidates that share a word of four letters or more with `typed`, the most similar ones first.
pub fn similar<'c>(typed: &str, candidates: impl IntoIterator<Item = &'c str>) -> Vec<&'c str> {
    if typed.len() > MAX_LENGTH {
        return Vec::new();
    }
    let typed_words = words(typed);
    let shared = |candidate: &str| {
        let others = words(candidate);
        typed_words.iter().filter(|word| word.len() >= 4 && others.contains(word)).count()
    };
    let mut similar: Vec<(usize, usize, &str)> = candidates
        .into_iter()
        .map(|candidate| (shared(candidate), candidate))
        .filter(|(shared, _)| *shared > 0)
        .map(|(shared, candidate)| (shared, strsim::damerau_levenshtein(typed, candidate), candidate))
        .collect();
    similar.sort_by_key(|(shared, distance, _)| (std::cmp::Reverse(*shared), *distance));
    similar.into_iter().take(MAX_SIMILAR).map(|(.., candidate)| candidate).collect()
}

/// Returns ``did you mean `x`?`` for a similar or abbreviated name, or a list of the candidates; and the name that it asks about.
pub(super) fn suggestion<'c>(typed: &str, candidates: &[&'c str], budget: &Budget) -> (String, Option<&'c str>) {
    if let Some(spaced) = with_space(typed, candidates, budget) {
        return (spaced, None);
    }
    match closest(typed, candidates.iter().copied(), budget).or_else(|| abbreviated(typed, candidates, budget)) {
        Some(meant) => (did_you_mean(meant), Some(meant)),
        None => {
            let more = if candidates.len() > MAX_KNOWN { ", …" } else { "" };
            let known = candidates.iter().take(MAX_KNOWN).copied().collect::<Vec<_>>().join(", ");
            (format!("known here: {known}{more}"), None)
        }
    }
}

/// Asks whether `name` was meant.
pub(super) fn did_you_mean(name: &str) -> String {
    format!("did you mean `{name}`?")
}

/// Returns the first candidate that has `typed` as one of its words: `burst` for `burst-capacity`.
fn abbreviated<'c>(typed: &str, candidates: &[&'c str], budget: &Budget) -> Option<&'c str> {
    let mut compared = candidates.iter().copied().take_while(|candidate| budget.take(1 + candidate.len()));
    compared.find(|candidate| candidate.split('-').any(|word| word.eq_ignore_ascii_case(typed)))
}

/// Suggests `key: value` for `key:value`, which YAML reads as one word.
fn with_space(typed: &str, candidates: &[&str], budget: &Budget) -> Option<String> {
    let (key, value) = typed.split_once(':')?;
    let mut compared = candidates.iter().take_while(|candidate| budget.take(1 + candidate.len()));
    let is_known = compared.any(|known| same_name(known, key));
    is_known.then(|| format!("write `{key}: {value}`, with a space after the colon"))
}
