//! Values of secrets, which are masked wherever they appear.

use std::ops::Range;

use aho_corasick::{AhoCorasick, MatchKind};

use super::MASK;
use super::misspelled::SECRET_KEYS;
use super::names::letters;

/// Shortest value that is masked everywhere, in characters. Shorter ones are too likely to be a part of other words.
const SHORTEST: usize = 6;

/// Values of secrets.
#[derive(Clone, Debug, Default)]
pub(in crate::diagnostics) struct SecretValues(Option<AhoCorasick>);

impl SecretValues {
    /// Takes the values that are long enough, and that are no name of a secret, such as `password`: messages name these.
    pub(in crate::diagnostics) fn of<'t>(texts: impl Iterator<Item = &'t str>) -> Self {
        let is_masked = |text: &&str| {
            let is_name = || SECRET_KEYS.contains(&letters(text).as_str());
            text.chars().nth(SHORTEST - 1).is_some() && !is_name()
        };
        let mut values: Vec<&str> = texts.filter(is_masked).collect();
        values.sort_unstable();
        values.dedup();
        if values.is_empty() {
            return Self(None);
        }
        Self(AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(values).ok())
    }

    /// Returns the places of values in `text`.
    pub(super) fn places<'t>(&'t self, text: &'t str) -> impl Iterator<Item = Range<usize>> + 't {
        self.0.iter().flat_map(move |values| values.find_iter(text).map(|found| found.range()))
    }

    /// Returns `text` without the values.
    pub(in crate::diagnostics) fn mask(&self, text: &str) -> String {
        let (mut masked, mut end) = (String::with_capacity(text.len()), 0);
        for place in self.places(text) {
            masked.push_str(&text[end..place.start]);
            masked.push_str(MASK);
            end = place.end;
        }
        masked.push_str(&text[end..]);
        masked
    }
}
