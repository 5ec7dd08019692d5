//! The JSON Schema of the YAML, as `tests/regenerate` writes it from the raw structs.

use serde_json::Value;

/// JSON Schema of the YAML in our own form: `config/schema.json`. A test compares it with the code.
pub const SCHEMA: &str = include_str!("../../../config/schema.json");

/// Returns [`SCHEMA`] as a value.
pub(crate) fn schema() -> Value {
    serde_json::from_str(SCHEMA).unwrap_or_default()
}
