//! Relaxed comparison of keys, as Spring's binder compares them.

/// Returns the common form of the `kebab-case`, `camelCase` and `snake_case` spellings of one name. Spaces do not count either.
pub fn canonical(name: &str) -> String {
    #[cfg(debug_assertions)]
    crate::steps::count();
    name.chars().filter(|c| !matches!(c, '-' | '_' | ' ')).map(|c| c.to_ascii_lowercase()).collect()
}

/// Returns true if two spellings have the same [`canonical`] form. Called for every key of a file, so it allocates
/// nothing.
pub fn same_name(one: &str, other: &str) -> bool {
    #[cfg(debug_assertions)]
    crate::steps::count();
    letters(one).eq(letters(other))
}

fn letters(name: &str) -> impl Iterator<Item = u8> {
    name.bytes().filter(|byte| !matches!(byte, b'-' | b'_' | b' ')).map(|byte| byte.to_ascii_lowercase())
}

/// Splits a name at capitals, acronyms and signs: `remoteAddrKeyResolver` is `remote`, `addr`, `key`, `resolver`, and
/// `SSOFilter` is `sso`, `filter`.
pub fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut before = None;
    let mut letters = name.chars().peekable();
    while let Some(letter) = letters.next() {
        let is_small = |letter: char| letter.is_lowercase() || letter.is_ascii_digit();
        let starts_word = letter.is_uppercase()
            && (before.is_some_and(is_small)
                || before.is_some_and(char::is_uppercase) && letters.peek().is_some_and(|next| next.is_lowercase()));
        if !letter.is_alphanumeric() || starts_word {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut()
            && letter.is_alphanumeric()
        {
            word.extend(letter.to_lowercase());
        }
        before = Some(letter);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_split_at_capitals_acronyms_and_signs() {
        for (name, parts) in [
            ("remoteAddrKeyResolver", "remote addr key resolver"),
            ("JWTRelay", "jwt relay"),
            ("SSOFilter", "sso filter"),
            ("OAuth2Filter", "o auth2 filter"),
            ("userIDs", "user i ds"),
            ("LOANS_URL", "loans url"),
            ("tenant-key", "tenant key"),
        ] {
            assert_eq!(words(name).join(" "), parts);
        }
    }
}
