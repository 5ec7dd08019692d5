//! Names that are not known, and resemble the names of secrets.

use std::ops::Range;

use super::{SECRET_KEYS, is_secret_key, is_value_key};
use crate::diagnostics::report::Diagnostic;
use crate::diagnostics::unknown::UnknownKind;
use crate::yaml::key::canonical;

/// Shortest name that is compared with misspelled ones.
const SHORTEST: usize = 5;
/// Ends of known keys that resemble the name of a secret: `requested-tokens`, `insecure`.
const OTHERS: [&str; 3] = ["tokens", "secure", "socket"];

/// Names that are not known, as the diagnostics of a configuration report them.
#[derive(Clone, Debug, Default)]
pub(in crate::diagnostics) struct UnknownNames {
    /// Keys for which the key of a secret is suggested.
    keys: Vec<String>,
    /// Keys for which `value` or `regexp` is suggested: their values are secrets beside the name of one.
    values: Vec<String>,
    /// Filters and predicates, with `=` as shortcuts have it.
    shortcuts: Vec<String>,
}

impl UnknownNames {
    /// Collects the names that `list` reports.
    pub(in crate::diagnostics) fn of(list: &[Diagnostic]) -> Self {
        let mut names = Self::default();
        for unknown in list.iter().filter_map(|diagnostic| diagnostic.unknown.as_ref()) {
            match unknown.kind {
                UnknownKind::Component => names.shortcuts.push(format!("{}=", unknown.name)),
                UnknownKind::Key if unknown.suggested.as_deref().is_some_and(is_secret_key) => {
                    names.keys.push(unknown.name.clone());
                }
                UnknownKind::Key if unknown.suggested.as_deref().is_some_and(is_value_key) => {
                    names.values.push(unknown.name.clone());
                }
                UnknownKind::Key => {}
            }
        }
        for list in [&mut names.keys, &mut names.values, &mut names.shortcuts] {
            list.sort_unstable();
            list.dedup();
        }
        names
    }

    /// Returns true for a key whose value is a secret under its suggested name.
    pub(super) fn has_key(&self, key: &str) -> bool {
        let last = key.rsplit('.').next().unwrap_or(key);
        self.keys.iter().any(|name| name == key || name.rsplit('.').next() == Some(last))
    }

    /// Returns true for a key whose value is a secret beside the name of one.
    pub(super) fn has_value_key(&self, key: &str) -> bool {
        self.values.iter().any(|name| name == key)
    }

    /// Filters and predicates, with `=` behind each.
    pub(super) fn shortcuts(&self) -> impl Iterator<Item = &str> {
        self.shortcuts.iter().map(String::as_str)
    }
}

/// Returns true if the end of `key` differs from the name of a secret by at most two edits: `passwrd`,
/// `key-store-pasword`. By two edits, only a word with the same first letter.
pub(super) fn resembles_secret(key: &str) -> bool {
    let (mut letters, mut word_starts) = (String::new(), Vec::new());
    let mut begins = true;
    for c in key.chars() {
        if c.is_ascii_alphanumeric() {
            word_starts.push(begins || c.is_ascii_uppercase());
            letters.push(c.to_ascii_lowercase());
        }
        begins = !c.is_ascii_alphanumeric();
    }
    if OTHERS.iter().any(|other| letters.ends_with(other)) {
        return false;
    }
    SECRET_KEYS.iter().filter(|secret| secret.len() >= SHORTEST).any(|secret| {
        (secret.len() - 2..=secret.len() + 2).any(|size| {
            let Some(start) = letters.len().checked_sub(size) else { return false };
            let end = &letters[start..];
            // Most names are told apart by their letters alone.
            (letter_set(end) ^ letter_set(secret)).count_ones() <= 4
                && match strsim::osa_distance(end, secret) {
                    0 | 1 => true,
                    2 => word_starts[start] && end.as_bytes()[0] == secret.as_bytes()[0],
                    _ => false,
                }
        })
    })
}

/// Finds values behind the keys of secrets in a flow map that lack the space after the colon: `{password:x}`. YAML reads
/// both as one key, which messages quote.
pub(super) fn find_unspaced(line: &str, found: &mut Vec<Range<usize>>) {
    for (colon, _) in line.match_indices(':') {
        let is_of_key = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        let key = &line[line[..colon].trim_end_matches(is_of_key).len()..colon];
        let before = &line[..colon - key.len()];
        let before = before.trim_end();
        let is_key = before.ends_with(['{', ',']) && !before.ends_with("${");
        // `cookie:session` is a key resolver.
        if !is_key || !is_secret_key(key) || canonical(key) == "cookie" {
            continue;
        }
        let start = colon + 1;
        let size = line[start..].find([',', '}', ' ', '\t']).unwrap_or(line.len() - start);
        if size > 0 {
            found.push(start..start + size);
        }
    }
}

/// Returns the set of the letters and digits of `text`, one bit for each.
fn letter_set(text: &str) -> u128 {
    text.bytes().fold(0, |set, byte| set | 1 << (byte & 127))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misspelled_names_of_secrets_resemble_them() {
        for key in [
            "passwrd",
            "pasword",
            "psasword",
            "assword",
            "Passwort",
            "key-store-passwrd",
            "keyStorePaswrd",
            "keystorepasswrd",
            "secrt",
            "scret",
            "client-secrte",
            "hash-scrt",
            "tokn",
            "toekn",
            "tken",
            "apikye",
            "api-ky",
            "authorisation",
            "credental",
            "coookie",
            "passphrse",
        ] {
            assert!(resembles_secret(key), "{key}");
        }
        for key in [
            "requested-tokens",
            "requestedTokens",
            "tokens",
            "insecure",
            "secure",
            "socket",
            "key-store",
            "trust-store",
            "certificate-private-key",
            "deny-empty-key",
            "timeout",
            "path",
            "table",
            "name",
            "pattern",
            "host",
            "",
            "-",
            "ä",
        ] {
            assert!(!resembles_secret(key), "{key}");
        }
    }
}
