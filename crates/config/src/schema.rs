//! The JSON Schema of the YAML, from the raw structs.

use serde_json::{Value, json};

use crate::raw::RawConfig;

/// Returns the JSON Schema of the YAML in our own form.
#[must_use]
pub fn schema() -> Value {
    let mut schema = schemars::schema_for!(RawConfig).to_value();
    allow_placeholders(&mut schema);
    schema
}

/// Allows a text with a `${NAME}` in it for numbers and booleans.
fn allow_placeholders(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            let types: Vec<Value> = match members.get("type") {
                Some(Value::Array(types)) => types.clone(),
                Some(only @ Value::String(_)) => vec![only.clone()],
                _ => Vec::new(),
            };
            let narrow = types.iter().any(|kind| ["integer", "boolean"].iter().any(|name| kind == name));
            if narrow && !types.contains(&json!("string")) {
                members.insert("type".to_owned(), types.into_iter().chain([json!("string")]).collect());
                members.insert("pattern".to_owned(), json!(r"\$\{.+\}"));
            }
            members.values_mut().for_each(allow_placeholders);
        }
        Value::Array(items) => items.iter_mut().for_each(allow_placeholders),
        _ => {}
    }
}
