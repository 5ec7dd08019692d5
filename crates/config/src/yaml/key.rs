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
