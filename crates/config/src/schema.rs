//! The JSON Schema of the YAML, as `tests/regenerate` writes it from the raw structs.

use std::collections::HashSet;
use std::sync::LazyLock;

use serde_json::Value;

use crate::de::canonical;

/// JSON Schema of the YAML in our own form: `config/schema.json`. A test compares it with the code.
pub const SCHEMA: &str = include_str!("../../../config/schema.json");

/// Words of messages that the schema does not have.
const OTHER_WORDS: [&str; 12] = [
    "connection",
    "expected",
    "indentation",
    "nowhere",
    "otherwise",
    "placeholder",
    "profiles",
    "skipped",
    "unclosed",
    "unexpected",
    "unsupported",
    "without",
];
/// Shortest word that counts.
const SHORTEST_WORD: usize = 3;

/// Returns true for a word of the configuration language: a name or another word of the schema, or of messages.
pub(crate) fn is_word(text: &str) -> bool {
    static WORDS: LazyLock<HashSet<String>> = LazyLock::new(|| {
        let names = SCHEMA.split(|c: char| !(c.is_ascii_alphabetic() || "-_".contains(c)));
        let words = names.flat_map(|name| name.split(['-', '_']).chain([name])).chain(OTHER_WORDS);
        words.filter(|word| word.len() >= SHORTEST_WORD).map(canonical).collect()
    });
    WORDS.contains(&canonical(text))
}

/// Returns [`SCHEMA`] as a value.
pub(crate) fn schema() -> Value {
    serde_json::from_str(SCHEMA).unwrap_or_default()
}
