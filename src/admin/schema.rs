//! JSON Schemas of replies and of bodies, from their types.

use schemars::generate::SchemaSettings;
use schemars::transform::{RecursiveTransform, Transform};
use schemars::{JsonSchema, Schema};
use serde_json::{Value, json};

/// Returns the schema of a reply.
pub(super) fn of_reply<T: JsonSchema>() -> Value {
    schema::<T>(SchemaSettings::draft2020_12().for_serialize())
}

/// Returns the schema of a body.
pub(super) fn of_body<T: JsonSchema>() -> Value {
    schema::<T>(SchemaSettings::draft2020_12().for_deserialize())
}

fn schema<T: JsonSchema>(settings: SchemaSettings) -> Value {
    let mut schema = settings.with(|settings| settings.inline_subschemas = true).into_generator().subschema_for::<T>();
    RecursiveTransform(without_null).transform(&mut schema);
    // Serialization sorts keywords, so that equal types have equal texts.
    serde_json::to_value(schema).unwrap_or_default()
}

/// Removes null from members that may be absent: they are left out instead.
fn without_null(schema: &mut Schema) {
    let required = schema.get("required").cloned().unwrap_or_default();
    let is_required = |name: &str| required.as_array().is_some_and(|names| names.contains(&json!(name)));
    for (name, member) in schema.get_mut("properties").and_then(Value::as_object_mut).into_iter().flatten() {
        if let Some([value_type, Value::String(null)]) = member["type"].as_array().map(Vec::as_slice)
            && null == "null"
            && !is_required(name)
        {
            member["type"] = value_type.clone();
        }
    }
}
