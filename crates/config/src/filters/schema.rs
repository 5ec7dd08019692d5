//! JSON Schema of filters and their arguments, which tests compare with `config/schema.json` and the documentation.

use std::borrow::Cow;

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Value, json};

use crate::filters::entry::{Arguments, Entry};
use crate::filters::filters;
use crate::spec::argument::Argument;
use crate::spec::schema::{Named, argument_map, definition};
use crate::spring::names::SKIP;

/// Name and documentation of one argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ArgumentDoc {
    /// Its name; nested ones are dotted: `backoff.factor`.
    pub(crate) name: String,
    /// Meaning, unit and default, in sentences of Markdown.
    pub(crate) doc: String,
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
        let named: Vec<Named> = entries
            .into_iter()
            .map(|entry| Named {
                name: entry.name,
                doc: entry.doc,
                args: entry.schema(generator),
                has_shortcut: !matches!(entry.args, Arguments::LongForm(_)),
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
        let schema = match self.args {
            Arguments::Listed(list) => {
                let doc =
                    |argument: &Argument| ArgumentDoc { name: argument.name.to_owned(), doc: argument.doc.to_owned() };
                return list.iter().map(doc).collect();
            }
            Arguments::Typed(schema) | Arguments::LongForm(schema) => schema.of,
        };
        let mut generator = SchemaSettings::draft2020_12().into_generator();
        let root = schema(&mut generator).to_value();
        let definitions = Value::Object(generator.take_definitions(true));
        let mut rows = Vec::new();
        collect_rows("", resolve(&root, &definitions), &definitions, &mut rows);
        rows
    }

    /// Returns the schema of the map of arguments.
    fn schema(&self, generator: &mut SchemaGenerator) -> Value {
        match self.args {
            Arguments::Listed(list) => argument_map(list, generator),
            Arguments::Typed(schema) | Arguments::LongForm(schema) => (schema.of)(generator).to_value(),
        }
    }
}

/// Returns the schema that `node` refers to, or `node`.
fn resolve<'s>(node: &'s Value, definitions: &'s Value) -> &'s Value {
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
            rows.push(ArgumentDoc { name, doc });
        }
    }
}
