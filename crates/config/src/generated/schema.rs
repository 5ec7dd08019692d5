//! The text of `config/schema.json`, from the raw structs.

use serde_json::{Value, json};

use crate::raw_config::RawConfig;
use crate::spec::describe_default;

/// Returns the JSON Schema of the YAML in our own form.
pub(super) fn schema() -> Value {
    let mut schema = schemars::schema_for!(RawConfig).to_value();
    describe_keys(&mut schema);
    let definitions = schema["$defs"].clone();
    allow_comma_lists(&mut schema, &definitions);
    allow_placeholders(&mut schema);
    schema
}

/// Writes the defaults of types into the descriptions of their keys, and drops keys without a description.
fn describe_keys(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            // A field without a doc comment is no key of ours: most are Spring's keys that have no effect here.
            if let Some(Value::Object(fields)) = members.get_mut("properties") {
                fields.retain(|_, field| field.get("description").is_some());
            }
            if members.get("default") == Some(&Value::Null) {
                members.remove("default");
            }
            describe_default(members);
            members.values_mut().for_each(describe_keys);
        }
        Value::Array(items) => items.iter_mut().for_each(describe_keys),
        _ => {}
    }
}

/// Allows one text with commas for a list of texts.
fn allow_comma_lists(schema: &mut Value, definitions: &Value) {
    match schema {
        Value::Object(members) => {
            let types = match members.get("type") {
                Some(Value::Array(types)) => types.clone(),
                Some(only @ Value::String(_)) => vec![only.clone()],
                _ => Vec::new(),
            };
            let is_list = types.contains(&json!("array")) && !types.contains(&json!("string"));
            if is_list && members.get("items").is_some_and(|items| is_text(items, definitions)) {
                members.insert("type".to_owned(), types.into_iter().chain([json!("string")]).collect());
            }
            members.values_mut().for_each(|member| allow_comma_lists(member, definitions));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| allow_comma_lists(item, definitions)),
        _ => {}
    }
}

/// Returns true for the schema of a text or of one of several words.
fn is_text(schema: &Value, definitions: &Value) -> bool {
    if let Some(reference) = schema["$ref"].as_str() {
        let name = reference.rsplit('/').next().unwrap_or_default();
        return definitions.get(name).is_some_and(|definition| is_text(definition, definitions));
    }
    let is_string = |schema: &Value| {
        schema["type"] == "string" || schema["type"].as_array().is_some_and(|types| types.contains(&json!("string")))
    };
    let is_word = |schema: &Value| schema["const"].is_string();
    is_string(schema) || schema["oneOf"].as_array().is_some_and(|words| words.iter().all(is_word))
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
