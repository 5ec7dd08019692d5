//! Suggestions for names that are not known.

use crate::yaml::key::same_name;

/// Returns the candidate most similar to `typed`, if it is close enough to be a typing error. The edit distance is
/// at most a third of the shorter name's length, or 1 for short names.
pub fn closest<'c>(typed: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<&'c str> {
    let wanted = typed.to_ascii_lowercase();
    candidates
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(&wanted, &candidate.to_ascii_lowercase()), candidate))
        .filter(|(distance, candidate)| *distance <= 1.max(candidate.len().min(wanted.len()) / 3))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Suggestions for one name at most.
const MAX_SIMILAR: usize = 5;

/// Returns the candidates that share a word of four letters or more with `typed`, the most similar ones first.
pub fn similar<'c>(typed: &str, candidates: impl IntoIterator<Item = &'c str>) -> Vec<&'c str> {
    let words: Vec<String> = words(typed);
    let shared = |candidate: &str| {
        let others = self::words(candidate);
        words.iter().filter(|word| word.len() >= 4 && others.contains(word)).count()
    };
    let mut found: Vec<(usize, usize, &str)> = candidates
        .into_iter()
        .map(|candidate| (shared(candidate), strsim::damerau_levenshtein(typed, candidate), candidate))
        .filter(|(shared, ..)| *shared > 0)
        .collect();
    found.sort_by_key(|(shared, distance, _)| (std::cmp::Reverse(*shared), *distance));
    found.into_iter().take(MAX_SIMILAR).map(|(.., candidate)| candidate).collect()
}

/// Returns the words of a name in camel case, in lower case.
fn words(name: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for letter in name.chars() {
        if letter.is_uppercase() || words.is_empty() {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut() {
            word.extend(letter.to_lowercase());
        }
    }
    words
}

/// Returns ``did you mean `x`?`` for a similar or abbreviated name, or the list of all candidates.
pub fn suggest(typed: &str, candidates: &[&str]) -> String {
    if let Some(spaced) = with_space(typed, candidates) {
        return spaced;
    }
    match suggestion(typed, candidates) {
        Some(candidate) => did_you_mean(candidate),
        None => format!("known here: {}", candidates.join(", ")),
    }
}

/// Returns the similar or abbreviated name that [`suggest`] asks about. `None` if it says something else.
pub(super) fn suggestion<'c>(typed: &str, candidates: &[&'c str]) -> Option<&'c str> {
    if with_space(typed, candidates).is_some() {
        return None;
    }
    closest(typed, candidates.iter().copied()).or_else(|| abbreviated(typed, candidates))
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
