//! Suggestions for names that are not known.

use crate::yaml::key::{same_name, words};

/// Returns the candidate most similar to `typed`, if it is close enough to be a typing error. The edit distance is
/// at most a third of the shorter name's length, or 1 for short names.
pub fn closest<'c>(typed: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<&'c str> {
    let wanted = typed.to_ascii_lowercase();
    let (letters, length) = (letter_set(&wanted), wanted.chars().count());
    let most = |candidate: &str| 1.max(candidate.len().min(wanted.len()) / 3);
    // Most names are told apart by their lengths and letters alone: an edit adds one and removes one.
    let may_be_close = |candidate: &str| {
        let most = most(candidate);
        candidate.chars().count().abs_diff(length) <= most
            && (letter_set(candidate) ^ letters).count_ones() as usize <= 2 * most
    };
    candidates
        .into_iter()
        .filter(|candidate| may_be_close(candidate))
        .map(|candidate| (strsim::damerau_levenshtein(&wanted, &candidate.to_ascii_lowercase()), candidate))
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
    let typed_words = words(typed);
    let shared = |candidate: &str| {
        let others = words(candidate);
        typed_words.iter().filter(|word| word.len() >= 4 && others.contains(word)).count()
    };
    let mut similar: Vec<(usize, usize, &str)> = candidates
        .into_iter()
        .map(|candidate| (shared(candidate), strsim::damerau_levenshtein(typed, candidate), candidate))
        .filter(|(shared, ..)| *shared > 0)
        .collect();
    similar.sort_by_key(|(shared, distance, _)| (std::cmp::Reverse(*shared), *distance));
    similar.into_iter().take(MAX_SIMILAR).map(|(.., candidate)| candidate).collect()
}

/// Returns ``did you mean `x`?`` for a similar or abbreviated name, or the list of all candidates.
pub fn suggest(typed: &str, candidates: &[&str]) -> String {
    suggestion(typed, candidates).0
}

/// Returns the text of [`suggest`], and the name that it asks about.
pub(super) fn suggestion<'c>(typed: &str, candidates: &[&'c str]) -> (String, Option<&'c str>) {
    if let Some(spaced) = with_space(typed, candidates) {
        return (spaced, None);
    }
    match closest(typed, candidates.iter().copied()).or_else(|| abbreviated(typed, candidates)) {
        Some(meant) => (did_you_mean(meant), Some(meant)),
        None => (format!("known here: {}", candidates.join(", ")), None),
    }
}

/// Asks whether `name` was meant.
pub(super) fn did_you_mean(name: &str) -> String {
    format!("did you mean `{name}`?")
}

/// Returns the first candidate that has `typed` as one of its words: `burst` for `burst-capacity`.
fn abbreviated<'c>(typed: &str, candidates: &[&'c str]) -> Option<&'c str> {
    candidates.iter().copied().find(|candidate| candidate.split('-').any(|word| word.eq_ignore_ascii_case(typed)))
}

/// Suggests `key: value` for `key:value`, which YAML reads as one word.
fn with_space(typed: &str, candidates: &[&str]) -> Option<String> {
    let (key, value) = typed.split_once(':')?;
    let is_known = candidates.iter().any(|known| same_name(known, key));
    is_known.then(|| format!("write `{key}: {value}`, with a space after the colon"))
}
