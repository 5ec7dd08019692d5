//! Values of secrets, which are masked wherever they appear: in any case of letters, percent-encoded, or within Base64.

use std::collections::{BTreeSet, HashSet};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use crate::diagnostics::secrets::texts::without_scheme;
use crate::diagnostics::secrets::{MASK, OwnWords};

/// Shortest value that is masked everywhere, in characters. Shorter ones are too likely to be a part of other words.
const SHORTEST: usize = 6;
/// Bytes at the start of a value by which a text is searched.
const HEAD: usize = 6;
/// Start of the lines around the Base64 of PEM.
const PEM_BOUNDARY: &str = "-----";

/// Values of the secrets of a configuration, to mask them in messages, logs and explanations.
#[derive(Clone, Default)]
pub struct SecretValues {
    index: Option<Arc<Index>>,
    words: OwnWords,
}

#[derive(Default)]
struct Index {
    /// Values in lower case, sorted.
    values: Vec<Value>,
    heads: HashSet<[u8; HEAD]>,
}

struct Value {
    text: String,
    /// Index of the longest other value with which this one begins.
    prefix: Option<usize>,
}

// === impl SecretValues ===

impl SecretValues {
    /// No values.
    pub const NONE: Self = Self { index: None, words: None };

    /// Takes the values that are long enough, and that are no `words`: a mask over a word of a message would tell it.
    pub(in crate::diagnostics) fn of<'t>(texts: impl Iterator<Item = &'t str>, words: OwnWords) -> Self {
        let none = Self { index: None, words };
        let is_masked = |text: &String| text.chars().nth(SHORTEST - 1).is_some() && !none.is_word(text);
        let forms: BTreeSet<String> = texts.flat_map(forms).filter(is_masked).collect();
        let mut values: Vec<Value> = Vec::with_capacity(forms.len());
        let mut prefixes: Vec<usize> = Vec::new();
        for text in forms {
            while prefixes.pop_if(|last| !text.starts_with(&values[*last].text)).is_some() {}
            let prefix = prefixes.last().copied();
            prefixes.push(values.len());
            values.push(Value { text, prefix });
        }
        let heads = values.iter().filter_map(|value| value.text.as_bytes().first_chunk::<HEAD>().copied()).collect();
        Self { index: (!values.is_empty()).then(|| Arc::new(Index { values, heads })), words }
    }

    /// Returns true if there are none.
    pub fn is_empty(&self) -> bool {
        self.index.is_none()
    }

    /// Returns true for a word that messages use themselves.
    pub(super) fn is_word(&self, text: &str) -> bool {
        self.words.is_some_and(|is_word| is_word(text))
    }

    /// Returns the places of values in `text`, in order.
    pub(super) fn places(&self, text: &str) -> Vec<Range<usize>> {
        let Some(index) = &self.index else { return Vec::new() };
        let mut places = index.find(text.as_bytes());
        if text.contains('%') {
            let (decoded, positions) = percent_decoded(text);
            places.extend(index.find(&decoded).into_iter().map(|range| positions[range.start]..positions[range.end]));
        }
        let is_found = |run: &[u8]| (0..4).any(|skipped| !index.find(&base64(&run[skipped..])).is_empty());
        places.extend(base64_runs(text).filter(|run| is_found(&text.as_bytes()[run.clone()])));
        places.sort_by_key(|range| range.start);
        places
    }

    /// Returns `text` without the values.
    pub fn mask(&self, text: &str) -> String {
        self.mask_unless(text, |_| false)
    }

    /// Returns `text` without the values, except those for which `is_shown`.
    pub fn mask_unless(&self, text: &str, is_shown: impl Fn(&str) -> bool) -> String {
        let (mut masked, mut end) = (String::with_capacity(text.len()), 0);
        for place in self.places(text).into_iter().filter(|place| !is_shown(&text[place.clone()])) {
            if place.start >= end {
                masked.push_str(&text[end..place.start]);
                masked.push_str(MASK);
            }
            end = end.max(place.end);
        }
        masked.push_str(&text[end..]);
        masked
    }
}

impl fmt::Debug for SecretValues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SecretValues({})", self.index.as_ref().map_or(0, |index| index.values.len()))
    }
}

impl Index {
    /// Returns the places of values in `text`, which do not overlap.
    fn find(&self, text: &[u8]) -> Vec<Range<usize>> {
        let text = text.to_ascii_lowercase();
        let (mut places, mut at) = (Vec::new(), 0);
        while let Some(head) = text.get(at..).and_then(|rest| rest.first_chunk::<HEAD>()) {
            let length = if self.heads.contains(head) { self.longest(&text[at..]) } else { None };
            places.extend(length.map(|length| at..at + length));
            at += length.unwrap_or(1);
        }
        places
    }

    /// Returns the length of the longest value with which `text` begins. It is the last one that does not sort behind `text`,
    /// or begins it.
    fn longest(&self, text: &[u8]) -> Option<usize> {
        let mut found = self.values.partition_point(|value| value.text.as_bytes() <= text).checked_sub(1);
        while let Some(value) = found.and_then(|at| self.values.get(at)) {
            if text.starts_with(value.text.as_bytes()) {
                return Some(value.text.len());
            }
            found = value.prefix;
        }
        None
    }
}

/// Returns the texts, in lower case, that tell the secret `text`: itself, as a string of Rust and JSON has it, each of its
/// lines, what is behind the scheme of a field, and all of these decoded.
fn forms(text: &str) -> BTreeSet<String> {
    let text = text.trim();
    let lines = text.split(['\n', '\r']).flat_map(|line| line.split("\\n")).map(str::trim);
    let mut forms: Vec<String> = lines.filter(|line| !line.starts_with(PEM_BOUNDARY)).map(str::to_owned).collect();
    forms.extend([text.to_owned(), text.escape_debug().to_string()]);
    forms.extend(without_scheme(text).map(str::to_owned));
    // Most are the text itself.
    forms.sort_unstable();
    forms.dedup();
    let decoded: Vec<String> = forms.iter().flat_map(|form| decoded(form)).collect();
    forms.extend(decoded);
    forms.into_iter().map(|form| form.to_ascii_lowercase()).collect()
}

/// Returns what `text` says if it is percent-encoded or Base64, and the password of `user:password` in Base64.
fn decoded(text: &str) -> Vec<String> {
    let is_text = |text: &String| !text.chars().any(char::is_control);
    let of_url = text.contains('%').then(|| String::from_utf8(percent_decoded(text).0).ok()).flatten();
    let is_whole = base64_runs(text).next() == Some(0..text.len());
    let of_base64 = is_whole.then(|| String::from_utf8(base64(text.as_bytes())).ok()).flatten().filter(is_text);
    let password = of_base64.as_ref().and_then(|login| login.split_once(':')).map(|(_, password)| password.to_owned());
    of_url.into_iter().chain(of_base64).chain(password).collect()
}

/// Shortest Base64 of a value that is masked everywhere.
const SHORTEST_RUN: usize = 8;

/// Returns the bytes of `text` without percent-encoding, and the position of each in `text`; the last one is its end.
pub(super) fn percent_decoded(text: &str) -> (Vec<u8>, Vec<usize>) {
    let (mut decoded, mut positions, mut at) = (Vec::with_capacity(text.len()), Vec::new(), 0);
    while let Some(byte) = text.as_bytes().get(at) {
        let digits = text.get(at + 1..at + 3).filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()));
        let encoded = digits.filter(|_| *byte == b'%').and_then(|digits| u8::from_str_radix(digits, 16).ok());
        decoded.push(encoded.unwrap_or(*byte));
        positions.push(at);
        at += if encoded.is_some() { 3 } else { 1 };
    }
    positions.push(at);
    (decoded, positions)
}

/// Returns the parts of `text` that may be Base64, of either alphabet, with its padding.
pub(super) fn base64_runs(text: &str) -> impl Iterator<Item = Range<usize>> + '_ {
    let mut next = 0;
    std::iter::from_fn(move || {
        loop {
            let start = next + text.as_bytes().get(next..)?.iter().position(|byte| sextet(*byte).is_some())?;
            let rest = &text[start..];
            let end = start + rest.bytes().position(|byte| sextet(byte).is_none()).unwrap_or(rest.len());
            next = end;
            if end - start >= SHORTEST_RUN {
                return Some(start..end + text[end..].bytes().take_while(|byte| *byte == b'=').count());
            }
        }
    })
}

/// Returns the bytes of Base64 up to the first other sign.
pub(super) fn base64(run: &[u8]) -> Vec<u8> {
    let (mut bytes, mut bits, mut count) = (Vec::with_capacity(run.len()), 0_u32, 0);
    for sextet in run.iter().map_while(|byte| sextet(*byte)) {
        (bits, count) = (bits << 6 | u32::from(sextet), count + 6);
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count).to_le_bytes()[0]);
        }
    }
    bytes
}

fn sextet(byte: u8) -> Option<u8> {
    match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'a'..=b'z' => Some(byte - b'a' + 26),
        b'0'..=b'9' => Some(byte - b'0' + 52),
        b'+' | b'-' => Some(62),
        b'/' | b'_' => Some(63),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_found_in_each_of_its_forms() {
        let values = SecretValues::of(
            ["p%40ss:wörd", "ABCDEF0123", "Basic dXNlcjpodW50ZXIy", "in \"quotes\""].into_iter(),
            None,
        );
        for (text, shown) in [
            ("a p%40ss:wörd b", "a **** b"),
            ("a p@ss:wörd b", "a **** b"),
            ("a %70%40ss%3aw%C3%b6rd b", "a **** b"),
            ("abcdef0123, ABCDEF0123", "****, ****"),
            ("hunter2 of dXNlcjpodW50ZXIy", "**** of ****"),
            ("of b3RoZXI6aHVudGVyMg==", "of ****"),
            ("of eDpodW50ZXIyCg", "of ****"),
            ("{\"a\":\"in \\\"quotes\\\"\"}", "{\"a\":\"****\"}"),
            ("hunter 2", "hunter 2"),
            ("p%4", "p%4"),
        ] {
            assert_eq!(values.mask(text), shown, "{text}");
        }
        assert_eq!(format!("{values:?}"), "SecretValues(9)");
    }

    #[test]
    fn the_longest_of_several_values_is_masked() {
        let values = SecretValues::of(["secret", "secret-a", "secret-a-long", "secret-b"].into_iter(), None);
        for (text, shown) in [
            ("secret-a-lon", "****-lon"),
            ("secret-a-long", "****"),
            ("secret-c secret-b", "****-c ****"),
            ("secre", "secre"),
        ] {
            assert_eq!(values.mask(text), shown, "{text}");
        }
        assert_eq!(values.mask_unless("secret-a secret-b", |found| found == "secret-a"), "secret-a ****");
    }

    #[test]
    fn each_line_of_a_key_is_masked_and_words_are_not() {
        let key = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADAN\n  BgkqhkiG9w0B\n-----END PRIVATE KEY-----\n";
        let words: OwnWords = Some(|text: &str| text == "routes");
        let values = SecretValues::of([key, "routes", "Routes2"].into_iter(), words);
        assert_eq!(values.mask("line BgkqhkiG9w0B"), "line ****");
        assert_eq!(values.mask("-----BEGIN PRIVATE KEY-----"), "-----BEGIN PRIVATE KEY-----");
        assert_eq!(values.mask("routes of routes2"), "routes of ****");
    }
}
