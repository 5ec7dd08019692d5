//! Shapes of values for the schema, of fields that are read by hand.

use schemars::JsonSchema;

/// One text or a list of texts.
#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "describes the schema of a field that is read by hand")]
pub(crate) enum StringOrList {
    /// One.
    One(String),
    /// Several.
    Several(Vec<String>),
}

/// A text, or a text that YAML reads as a number or a boolean.
#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "describes the schema of a field that is read as text")]
pub(crate) enum Scalar {
    /// A text.
    Text(String),
    /// A number.
    Number(u64),
    /// A boolean.
    Flag(bool),
}
