//! Names that resemble the names of secrets.

use std::collections::HashSet;
use std::sync::LazyLock;

use crate::diagnostics::secrets::names::{SECRET_KEYS, ValueKind, is_value_key};
use crate::diagnostics::suggest::letter_set;
use crate::diagnostics::unknown::{UnknownKind, UnknownName};

/// Names of secrets, each with the set of its letters.
static LETTER_SETS: LazyLock<Vec<(&str, u128)>> = LazyLock::new(|| {
    let long = SECRET_KEYS.iter().filter(|secret| secret.len() >= SHORTEST);
    long.map(|secret| (*secret, letter_set(secret))).collect()
});
/// Shortest name that is compared with misspelled ones.
const SHORTEST: usize = 5;
/// Ends of known names that resemble the name of a secret: `requested-tokens`, `insecure`, `CircuitBreaker`.
const OTHERS: [&str; 4] = ["tokens", "secure", "socket", "breaker"];

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
    #[cfg(debug_assertions)]
    crate::steps::count();
    // Most names lack more letters of each secret than two edits add.
    let all = letter_set(&letters);
    let may_resemble = |(_, set): &&(&str, u128)| (set & !all).count_ones() <= 2;
    let mut secrets = LETTER_SETS.iter().filter(may_resemble).peekable();
    let sets = if secrets.peek().is_some() { suffix_sets(&letters) } else { return false };
    secrets.any(|(secret, set)| {
        (secret.len() - 2..=secret.len() + 2).any(|size| {
            let Some(start) = letters.len().checked_sub(size) else { return false };
            let end = &letters[start..];
            let is_word = word_starts[start] && end.as_bytes()[0] == secret.as_bytes()[0];
            let edits = if is_word { 2 } else { 1 };
            (sets[size - 1] ^ set).count_ones() <= 2 * edits && strsim::osa_distance(end, secret) <= edits as usize
        })
    })
}

/// Returns the sets of the last letters of `letters`: of the last one, of the last two, and so on.
fn suffix_sets(letters: &str) -> Vec<u128> {
    let sets = letters.bytes().rev().scan(0, |set, byte| {
        *set |= 1 << (byte & 127);
        Some(*set)
    });
    sets.collect()
}

/// Names that are not known, as the diagnostics of a configuration report them.
#[derive(Clone, Debug, Default)]
pub(in crate::diagnostics) struct UnknownNames {
    /// Keys for which the key of a secret, or of a section with secrets, is suggested: the last part of each.
    keys: HashSet<String>,
    /// Keys for which `value` or `regexp` is suggested: their values are secrets beside the name of one.
    values: HashSet<String>,
    /// Filters and predicates.
    components: HashSet<String>,
}

impl UnknownNames {
    /// Collects the names that are `unknown`.
    pub(in crate::diagnostics) fn of<'u>(unknown: impl Iterator<Item = &'u UnknownName>) -> Self {
        let mut names = Self::default();
        for unknown in unknown {
            match unknown.kind {
                UnknownKind::Component => {
                    names.components.insert(unknown.name.clone());
                }
                UnknownKind::Key if unknown.suggested.as_deref().is_some_and(has_secrets) => {
                    names.keys.insert(last_part(&unknown.name).to_owned());
                }
                UnknownKind::Key if unknown.suggested.as_deref().is_some_and(is_value_key) => {
                    names.values.insert(unknown.name.clone());
                }
                UnknownKind::Key => {}
            }
        }
        names
    }

    /// Returns true for a key whose value is a secret under its suggested name.
    pub(super) fn has_key(&self, key: &str) -> bool {
        self.keys.contains(last_part(key))
    }

    /// Returns true for a key whose value is a secret beside the name of one.
    pub(super) fn has_value_key(&self, key: &str) -> bool {
        self.values.contains(key)
    }

    /// Returns true for a filter or predicate.
    pub(super) fn has_component(&self, name: &str) -> bool {
        self.components.contains(name)
    }
}

fn last_part(key: &str) -> &str {
    key.rsplit('.').next().unwrap_or(key)
}

fn has_secrets(key: &str) -> bool {
    ValueKind::Other.below(key).has_secrets()
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
