//! Names whose values are secrets.

use super::misspelled::{SECRET_KEYS, resembles_secret};

/// Parts of the names of headers, cookies and parameters whose values are secrets.
const SECRET_NAMES: [&str; 8] = ["auth", "cookie", "credential", "key", "passw", "secret", "session", "token"];
/// Key whose table holds fields with possible secrets as values.
const FIELDS: &str = "headers";
/// Keys whose values are key ids of clients, such as API keys.
const KEY_LISTS: [&str; 2] = ["exempt", "block"];
/// Key of a map from key ids to plans.
const TABLE: &str = "table";
/// Keys of Ribbon's lists of servers, which have no scheme: `user:password@host:80`.
const SERVERS: [&str; 2] = ["listOfServers", "list-of-servers"];

/// Kind of the value of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ValueKind {
    /// List of key ids, or a text of them with commas.
    KeyList,
    /// Map from key ids to plans.
    Table,
    /// Secret, such as a password.
    Secret,
    /// Several secrets; a map of them has names that are none.
    Secrets,
    /// Map of header fields.
    Fields,
    /// Ribbon's servers.
    Servers,
    Other,
}

/// Returns the kind of the value of `key`, which may be a property name with indexes, such as `exempt[0]`.
pub(super) fn kind(key: &str) -> ValueKind {
    let (above, last) = key.rsplit_once('.').unwrap_or(("", key));
    let last = last.split('[').next().unwrap_or(last);
    match last {
        _ if KEY_LISTS.contains(&last) => ValueKind::KeyList,
        TABLE => ValueKind::Table,
        FIELDS => ValueKind::Fields,
        _ if SERVERS.contains(&last) => ValueKind::Servers,
        _ if is_secret_key(last) && last.ends_with('s') => ValueKind::Secrets,
        _ if is_secret_key(last) || above.rsplit('.').next() == Some(FIELDS) => ValueKind::Secret,
        _ => ValueKind::Other,
    }
}

/// Returns true for a key whose value may be a secret, also if its name is misspelled.
pub(super) fn is_secret_key(key: &str) -> bool {
    #[cfg(test)]
    #[cfg(debug_assertions)]
    crate::steps::count();
    let last = key.rsplit('.').next().unwrap_or(key);
    let letters: String = last.chars().filter(char::is_ascii_alphanumeric).collect();
    let letters = letters.to_ascii_lowercase();
    SECRET_KEYS.iter().any(|secret| letters.ends_with(secret)) || resembles_secret(last)
}

/// Returns true for arguments whose values are secrets if another argument names one.
pub(super) fn is_value_key(key: &str) -> bool {
    matches!(key, "value" | "regexp")
}

/// Returns true for the name of a header, cookie or parameter whose value may be a secret.
pub fn is_secret_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    SECRET_NAMES.iter().any(|secret| name.contains(secret))
}
