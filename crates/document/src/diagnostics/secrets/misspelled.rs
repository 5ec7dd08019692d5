//! Names that resemble the names of secrets.

/// Ends of the names of keys whose values are secrets, as letters and digits in lower case.
pub(super) const SECRET_KEYS: [&str; 11] = [
    "password",
    "passwd",
    "pwd",
    "passphrase",
    "secret",
    "token",
    "apikey",
    "credential",
    "credentials",
    "authorization",
    "cookie",
];
/// Shortest name that is compared with misspelled ones.
const SHORTEST: usize = 5;
/// Ends of known keys that resemble the name of a secret: `requested-tokens`, `insecure`.
const OTHERS: [&str; 3] = ["tokens", "secure", "socket"];

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
