//! Shapes of the schema for values that are read as text.

/// One text or a list of texts.
#[cfg(test)]
#[derive(schemars::JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "describes a value in the schema that is read by hand")]
pub(crate) enum StringOrList {
    /// One.
    One(String),
    /// Several.
    Several(Vec<String>),
}

/// A text, or a number or flag that is read as text.
#[cfg(test)]
#[derive(schemars::JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "describes a value in the schema that is read as text")]
pub(crate) enum Scalar {
    /// A text.
    Text(String),
    /// A number.
    Number(f64),
    /// A flag.
    Flag(bool),
}
