//! Suggestions for names that are not known.

use crate::yaml::key::canonical;

/// Returns the candidate most similar to `typed`, if it is close enough to be a typing error. The edit distance is
/// at most a third of the shorter name's length, or 1 for short names.
pub(crate) fn closest<'c>(typed: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<&'c str> {
    let wanted = typed.to_ascii_lowercase();
    candidates
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(&wanted, &candidate.to_ascii_lowercase()), candidate))
        .filter(|(distance, candidate)| *distance <= 1.max(candidate.len().min(wanted.len()) / 3))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Returns ``did you mean `x`?`` for a similar or abbreviated name, or the list of all candidates.
pub(crate) fn suggest(typed: &str, candidates: &[&str]) -> String {
    if let Some(spaced) = with_space(typed, candidates) {
        return spaced;
    }
    match closest(typed, candidates.iter().copied()).or_else(|| abbreviated(typed, candidates)) {
        Some(candidate) => format!("did you mean `{candidate}`?"),
        None => format!("known here: {}", candidates.join(", ")),
    }
}

/// Returns the first candidate that has `typed` as one of its words: `burst` for `burst-capacity`.
fn abbreviated<'c>(typed: &str, candidates: &[&'c str]) -> Option<&'c str> {
    candidates.iter().copied().find(|candidate| candidate.split('-').any(|word| word.eq_ignore_ascii_case(typed)))
}

/// Suggests `key: value` for `key:value`, which YAML reads as one word.
fn with_space(typed: &str, candidates: &[&str]) -> Option<String> {
    let (key, value) = typed.split_once(':')?;
    let is_known = candidates.iter().any(|known| canonical(known) == canonical(key));
    is_known.then(|| format!("write `{key}: {value}`, with a space after the colon"))
}
