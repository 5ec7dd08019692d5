//! JSON Schema of filters and their arguments, which tests compare with `config/schema.json` and the documentation.

use std::borrow::Cow;

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Value, json};

use crate::filters::filters;
use crate::filters::row::Entry;
use crate::spec::{DocumentedEntry, Shortcut, definition};
use crate::spring::names::SKIP;

/// Name and documentation of one argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ArgumentDoc {
    /// Its name; nested ones are dotted: `backoff.factor`.
    pub(crate) name: String,
    /// Meaning, unit and default, in sentences of Markdown.
    pub(crate) doc: String,
    /// A value.
    pub(crate) example: String,
}

/// A filter as the file specifies it, for the schema.
pub(crate) struct FilterEntrySchema;

impl JsonSchema for FilterEntrySchema {
    fn schema_name() -> Cow<'static, str> {
        "Filter".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut entries: Vec<&Entry> = filters().collect();
        entries.sort_by_key(|entry| entry.name);
        let named: Vec<DocumentedEntry> = entries
            .into_iter()
            .map(|entry| DocumentedEntry {
                name: entry.name,
                doc: entry.doc,
                args: (entry.args.schema)(generator).to_value(),
                has_shortcut: !matches!(entry.args.shortcut, Shortcut::None(_)),
            })
            .collect();
        let mut schema = definition("filter", &named);
        let skip = json!({"const": SKIP, "description": "Position of a filter that is left out."});
        if let Some(Value::Array(alternatives)) = schema.get_mut("oneOf") {
            alternatives.insert(1, skip);
        }
        schema
    }
}

impl Entry {
    /// Returns the name and documentation of each argument.
    pub(crate) fn arguments(&self) -> Vec<ArgumentDoc> {
        let mut generator = SchemaSettings::draft2020_12().into_generator();
        let root = (self.args.schema)(&mut generator).to_value();
        let definitions = Value::Object(generator.take_definitions(true));
        let mut rows = Vec::new();
        collect_rows("", resolve(&root, &definitions), &definitions, &mut rows);
        rows
    }
}

/// Returns the schema that `node` refers to, or `node`. That of an optional value is the first of two.
fn resolve<'s>(node: &'s Value, definitions: &'s Value) -> &'s Value {
    let node = node["anyOf"].get(0).filter(|_| node["anyOf"][1]["type"] == "null").unwrap_or(node);
    let name = node["$ref"].as_str().and_then(|reference| reference.rsplit('/').next());
    name.map_or(node, |name| &definitions[name])
}

fn collect_rows(prefix: &str, schema: &Value, definitions: &Value, rows: &mut Vec<ArgumentDoc>) {
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        if name.starts_with("redis-rate-limiter") {
            continue;
        }
        let name = format!("{prefix}{name}");
        let inner = resolve(property, definitions);
        if inner["properties"].is_object() {
            collect_rows(&format!("{name}."), inner, definitions, rows);
        } else {
            let doc = property["description"].as_str().unwrap_or_default().replace('\n', " ");
            rows.push(ArgumentDoc { name, doc, example: example(inner) });
        }
    }
}

/// Returns a value of a type.
fn example(schema: &Value) -> String {
    let types = schema["type"].to_string();
    match &schema["examples"][0] {
        Value::Null if types.contains("string") => "value".to_owned(),
        Value::Null if types.contains("integer") => "1".to_owned(),
        Value::Null if types.contains("boolean") => "true".to_owned(),
        Value::Null => "value".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
