//! Relaxed comparison of keys, as Spring's binder compares them.

/// Returns the common form of the `kebab-case`, `camelCase` and `snake_case` spellings of one name. Spaces do not count either.
pub(crate) fn canonical(name: &str) -> String {
    name.chars().filter(|c| !matches!(c, '-' | '_' | ' ')).map(|c| c.to_ascii_lowercase()).collect()
}

/// Returns true if two spellings have the same [`canonical`] form. Called for every key of a file, so it allocates
/// nothing.
pub(crate) fn same_name(one: &str, other: &str) -> bool {
    letters(one).eq(letters(other))
}

fn letters(name: &str) -> impl Iterator<Item = u8> {
    name.bytes().filter(|byte| !matches!(byte, b'-' | b'_' | b' ')).map(|byte| byte.to_ascii_lowercase())
}

/// Splits a name at capitals and signs: `remoteAddrKeyResolver` is `remote`, `addr`, `key`, `resolver`.
pub(crate) fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut was_small = false;
    for letter in name.chars() {
        if !letter.is_alphanumeric() || letter.is_uppercase() && was_small {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut()
            && letter.is_alphanumeric()
        {
            word.extend(letter.to_lowercase());
        }
        was_small = letter.is_lowercase() || letter.is_ascii_digit();
    }
    words
}
