//! JSON Schema of predicates, which tests compare with `config/schema.json`.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator};

use crate::predicates::table::predicates;
use crate::spec::{DocumentedEntry, argument_map, definition};

/// A predicate as the file specifies it, for the schema.
pub(crate) struct PredicateEntrySchema;

impl JsonSchema for PredicateEntrySchema {
    fn schema_name() -> Cow<'static, str> {
        "Predicate".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let named: Vec<DocumentedEntry> = predicates()
            .iter()
            .map(|entry| DocumentedEntry {
                name: entry.name,
                doc: entry.doc,
                args: argument_map(entry.args, generator),
                has_shortcut: true,
            })
            .collect();
        definition("predicate", &named)
    }
}
