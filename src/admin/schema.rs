//! Helpers for the JSON Schemas of responses. Each schema is in the file of the code that writes the response.

use serde_json::{Map, Value, json};

/// JSON Schema of an object.
#[derive(Debug, Default)]
pub(super) struct ObjectSchema {
    properties: Map<String, Value>,
    required: Vec<&'static str>,
}

impl ObjectSchema {
    /// Adds a member that is always there.
    pub(super) fn with(mut self, name: &'static str, schema: Value) -> Self {
        self.required.push(name);
        self.properties.insert(name.to_owned(), schema);
        self
    }

    /// Adds a member that may be absent.
    pub(super) fn maybe(mut self, name: &'static str, schema: Value) -> Self {
        self.properties.insert(name.to_owned(), schema);
        self
    }

    /// Makes the members optional, and adds those of `other`.
    pub(super) fn partly(self, other: Self) -> Self {
        Self { properties: self.properties.into_iter().chain(other.properties).collect(), required: other.required }
    }

    /// Returns the schema of a body, which has no other member.
    pub(super) fn closed(self) -> Value {
        let mut schema = self.build();
        schema["additionalProperties"] = json!(false);
        schema
    }

    /// Returns the schema.
    pub(super) fn build(self) -> Value {
        json!({"type": "object", "required": self.required, "properties": self.properties})
    }
}

/// Returns the schema of an object without members yet.
pub(super) fn object() -> ObjectSchema {
    ObjectSchema::default()
}

/// Returns the schema of an object whose members have names that the schema does not know.
pub(super) fn map_of(values: &Value) -> Value {
    json!({"type": "object", "additionalProperties": values})
}

/// Returns the schema of a list.
pub(super) fn list_of(items: &Value) -> Value {
    json!({"type": "array", "items": items})
}

/// Returns the schema of two values, as a list.
pub(super) fn pair_of(items: &Value) -> Value {
    json!({"type": "array", "items": items, "minItems": 2, "maxItems": 2})
}

/// Returns the schema of one of `names`.
pub(super) fn one_of(names: &[&str]) -> Value {
    json!({"type": "string", "enum": names})
}

/// Returns the schema of a text.
pub(super) fn text() -> Value {
    json!({"type": "string"})
}

/// Returns the schema of a time of day.
pub(super) fn time() -> Value {
    json!({"type": "string", "format": "date-time"})
}

/// Returns the schema of a number of things, or of milliseconds.
pub(super) fn count() -> Value {
    json!({"type": "integer", "minimum": 0})
}

/// Returns the schema of a whole number, which may be negative.
pub(super) fn integer() -> Value {
    json!({"type": "integer"})
}

/// Returns the schema of a number.
pub(super) fn number() -> Value {
    json!({"type": "number"})
}

/// Returns the schema of a truth value.
pub(super) fn flag() -> Value {
    json!({"type": "boolean"})
}

/// Returns the schema of null.
pub(super) fn null() -> Value {
    json!({"type": "null"})
}

/// Returns `schema` with null as a further value.
pub(super) fn or_null(schema: &Value) -> Value {
    json!({"anyOf": [schema, {"type": "null"}]})
}

/// Adds the meaning of a value to its schema.
pub(super) fn meaning(mut schema: Value, meaning: &str) -> Value {
    schema["description"] = json!(meaning);
    schema
}
