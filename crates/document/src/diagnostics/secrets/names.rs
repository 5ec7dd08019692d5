//! Names whose values are secrets, in any spelling.

use super::misspelled::resembles_secret;
use crate::yaml::key::words;

/// Ends of the names of keys whose values are secrets, as letters and digits in lower case.
pub(super) const SECRET_KEYS: [&str; 28] = [
    "accesscode",
    "apikey",
    "authorization",
    "bearer",
    "connectionstring",
    "cookie",
    "cred",
    "credential",
    "credentials",
    "hmac",
    "jaas",
    "jaasconfig",
    "key",
    "pass",
    "passcode",
    "passphrase",
    "passwd",
    "password",
    "pepper",
    "psw",
    "pwd",
    "salt",
    "secret",
    "signature",
    "token",
    "webhook",
    "webhookuri",
    "webhookurl",
];
/// Last words of names whose values are secrets, if they are plain values: a map below `jwt` is a section. The longer ones need not
/// be words of their own.
const SECRET_WORDS: [&str; 12] =
    ["auth", "dsn", "jwt", "otp", "pat", "pin", "pw", "sas", "seed", "sessionid", "sig", "totp"];
/// Longest of them that is no end of another word: `compat` and `spin` are no secrets.
const LONGEST_WORD: usize = 3;
/// Ends of names that end like those above, or resemble them, and have no secrets.
pub(super) const NO_SECRET_KEYS: [&str; 15] = [
    "allowcredentials",
    "bypass",
    "cachekey",
    "clientauth",
    "emptykey",
    "foreignkey",
    "idempotencykey",
    "messagekey",
    "partitionkey",
    "primarykey",
    "publickey",
    "routingkey",
    "sortkey",
    "valkey",
    "websocketkey",
];
/// Parts of the names of headers, cookies and parameters whose values are secrets, besides [`SECRET_KEYS`].
pub(super) const SECRET_NAMES: [&str; 8] =
    ["auth", "cookie", "credential", "key", "passw", "secret", "session", "token"];
/// Keys of an entry of [`ValueKind::Credential`] that are no secrets, and those of the section `api-keys`, which names the places of
/// keys.
const HARMLESS: [&str; 11] =
    ["cache", "file", "from", "idheader", "keep", "name", "redishash", "role", "tokenfile", "unknownlimit", "username"];
/// Properties whose names end like those of lists of secrets.
pub(super) const NO_SECRETS: [&str; 8] = [
    "allowcredentials",
    "hashkeys",
    "hotkeys",
    "maxkeys",
    "refilltokens",
    "repeatedkeys",
    "requestedtokens",
    "topkeys",
];

/// Kind of the value of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ValueKind {
    /// A document. Its section `headers` has settings, not fields.
    Document,
    /// List of key ids of clients, such as API keys, or a text of them with commas.
    KeyList,
    /// Map from key ids to plans.
    Table,
    /// Value below a key id, such as the name of a plan.
    Plan,
    /// Secret, such as a password; so is everything below it.
    Secret,
    /// Secret unless it is the place of a file with one.
    Key,
    /// Secret if it is a plain value, or a list of such.
    Word,
    /// Several secrets: a list of them or of credentials, or a map.
    Secrets,
    /// Map of an item of [`Secrets`](Self::Secrets), such as `{name: a, token: b}`.
    Credential,
    /// Map of header fields.
    Fields,
    /// Map from names that the author chose, such as `apiKey` for a key resolver.
    Names,
    Other,
}

// === impl ValueKind ===

impl ValueKind {
    /// Returns the kind of the value of `key` in a map of this kind. A dotted key leads through several maps.
    pub(super) fn below(self, key: &str) -> Self {
        steps(key).fold(self, |above, (_, step)| above.step(step))
    }

    /// Returns the position from which on `key`, in a map of this kind, may be a secret itself, as a key id is.
    pub(super) fn secret_part(self, key: &str) -> Option<usize> {
        let (mut above, mut last) = (self, None);
        for (at, step) in steps(key) {
            above = last.map_or(above, |last| above.step(last));
            if above.has_secret_keys(step) {
                return Some(at);
            }
            last = Some(step);
        }
        None
    }

    /// Returns true if values of this kind are, or may have, secrets that are none under other names.
    pub(super) fn has_secrets(self) -> bool {
        !matches!(self, Self::Document | Self::Names | Self::Other | Self::Word)
    }

    fn has_secret_keys(self, step: &str) -> bool {
        match self {
            Self::KeyList | Self::Table | Self::Plan | Self::Secret => !is_index(step),
            Self::Secrets => !is_index(step) && !is_of_credential(step),
            _ => false,
        }
    }

    fn step(self, step: &str) -> Self {
        match self {
            Self::Secrets if is_index(step) => Self::Credential,
            _ if is_index(step) => self,
            Self::Table | Self::Plan => Self::Plan,
            Self::Secrets | Self::Credential if is_harmless(&letters(step)) => Self::Other,
            Self::KeyList | Self::Secret | Self::Key | Self::Secrets | Self::Credential | Self::Fields => Self::Secret,
            Self::Names => Self::Other,
            Self::Document | Self::Other | Self::Word => self.of_name(step),
        }
    }

    fn of_name(self, name: &str) -> Self {
        let letters = letters(name);
        match letters.as_str() {
            "exempt" | "block" => Self::KeyList,
            "table" => Self::Table,
            "keyresolvers" => Self::Names,
            "headers" if self == Self::Document => Self::Other,
            "headers" => Self::Fields,
            name if are_secrets(name) => Self::Secrets,
            letters if ends_like_secret(letters) && letters.ends_with("key") => Self::Key,
            letters if is_secret_word(name, letters) => Self::Word,
            _ if is_secret_key(name) => Self::Secret,
            _ => Self::Other,
        }
    }
}

/// Returns the parts of a key between dots and brackets, each with its position: `a.b[0]` is `a`, `b` and `0]`.
fn steps(key: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut next = 0;
    let parts = key.split(['.', '[']).map(move |step| {
        let at = next;
        next += step.len() + 1;
        (at, step)
    });
    parts.filter(|(_, step)| !step.is_empty())
}

fn is_index(step: &str) -> bool {
    step.strip_suffix(']').is_some_and(|index| index.bytes().all(|digit| digit.is_ascii_digit()))
}

fn is_harmless(letters: &str) -> bool {
    HARMLESS.contains(&letters)
}

/// Returns true for a key of a credential, such as `name` or `token`.
pub(super) fn is_of_credential(key: &str) -> bool {
    is_harmless(&letters(key)) || is_secret_key(key)
}

/// Returns the letters and digits of a name in lower case: spellings of one name have the same.
pub(super) fn letters(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect()
}

/// Returns true for the plural of the name of a secret.
fn are_secrets(letters: &str) -> bool {
    let is_other = NO_SECRETS.iter().any(|other| letters.ends_with(other));
    !is_other && (letters.ends_with("credentials") || letters.strip_suffix('s').is_some_and(ends_like_secret))
}

/// Returns true for the letters of a name whose value is a secret.
fn ends_like_secret(letters: &str) -> bool {
    SECRET_KEYS.iter().any(|name| letters.ends_with(name)) && !has_other_meaning(letters)
}

/// Returns true for the letters of a name that only seems to be that of a secret.
fn has_other_meaning(letters: &str) -> bool {
    NO_SECRET_KEYS.iter().any(|name| letters.ends_with(name))
}

/// Returns true for a name with these `letters` that ends with one of [`SECRET_WORDS`].
pub(super) fn is_secret_word(name: &str, letters: &str) -> bool {
    let is_last = |word: &str| words(name).pop().is_some_and(|last| last == word);
    let mut ends = SECRET_WORDS.iter().filter(|word| letters.ends_with(*word));
    ends.any(|word| word.len() > LONGEST_WORD || is_last(word)) && !has_other_meaning(letters)
}

/// Returns true for a key whose value may be a secret, also if its name is misspelled. Each name that ends in `key` is one,
/// except those with another meaning.
pub fn is_secret_key(key: &str) -> bool {
    #[cfg(debug_assertions)]
    crate::steps::count();
    let last = key.rsplit('.').next().unwrap_or(key);
    let letters = letters(last);
    ends_like_secret(&letters)
        || is_secret_word(last, &letters)
        || !has_other_meaning(&letters) && resembles_secret(last)
}

/// Returns true for arguments whose values are secrets if another argument names one. Spring numbers those without names.
pub(super) fn is_value_key(key: &str) -> bool {
    let letters = letters(key);
    matches!(letters.as_str(), "value" | "regexp" | "replacement")
        || letters.starts_with("genkey") && letters != "genkey0"
}

/// Returns true for the name of a header, cookie or parameter whose value may be a secret: the names of keys, and more, as no
/// schema knows those of fields. `code` is that of OAuth.
pub fn is_secret_name(name: &str) -> bool {
    let (lower, letters) = (name.to_ascii_lowercase(), letters(name));
    let has_part = || SECRET_NAMES.iter().any(|part| lower.contains(part));
    let has_signature = || lower.split(|c: char| !c.is_alphanumeric()).any(|word| word.starts_with("sig"));
    ends_like_secret(&letters)
        || are_secrets(&letters)
        || is_secret_word(name, &letters)
        || letters == "code"
        || !has_other_meaning(&letters) && (has_part() || has_signature())
}
