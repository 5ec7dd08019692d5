//! Documented arguments of predicates and filters.

use schemars::SchemaGenerator;
use serde_json::{Map, Value, json};

use crate::de::given::Texts;
use crate::de::units::{Size, Time};
use crate::spec::schema::relax;
use crate::spec::types::{FieldName, Status};

/// An argument of a predicate or filter.
#[derive(Clone, Copy, Debug)]
pub struct Argument {
    /// Its name.
    pub name: &'static str,
    /// Meaning, unit and default, in sentences of Markdown.
    pub doc: &'static str,
    /// Its type.
    pub kind: ArgumentType,
}

/// Type of an [`Argument`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArgumentType {
    /// A text.
    Text,
    /// `true` or `false`.
    Flag,
    /// A whole number.
    Number,
    /// A number of bytes such as `64KB`.
    Size,
    /// A time such as `5s`.
    Duration,
    /// A status by number or name.
    Status,
    /// A header name.
    HeaderName,
    /// One text or a list of texts.
    List,
}

impl Argument {
    /// The text argument `name` with the documentation `doc`.
    pub(crate) const fn new(name: &'static str, doc: &'static str) -> Self {
        Self { name, doc, kind: ArgumentType::Text }
    }

    /// The same argument with the type `kind`.
    pub(crate) const fn of(self, kind: ArgumentType) -> Self {
        Self { kind, ..self }
    }
}

/// Schema of the map of `arguments`.
pub(crate) fn schema(arguments: &[Argument], generator: &mut SchemaGenerator) -> Value {
    let properties: Map<String, Value> = arguments
        .iter()
        .map(|argument| {
            let mut property = type_schema(argument.kind, generator);
            if let Value::Object(property) = &mut property {
                property.insert("description".to_owned(), json!(argument.doc));
            }
            (argument.name.to_owned(), property)
        })
        .collect();
    let mut object = Map::new();
    object.insert("type".to_owned(), json!("object"));
    object.insert("properties".to_owned(), Value::Object(properties));
    relax(&mut object);
    if let Some(Value::Object(patterns)) = object.get_mut("patternProperties") {
        // Spring's names of positional arguments, and of nested ones such as `weight.group`.
        patterns.insert("^_genkey_[0-9]+$".to_owned(), json!(true));
        patterns.insert(r"^[a-zA-Z]+\.[a-zA-Z-]+$".to_owned(), json!(true));
        // A list may have the singular of its name.
        for argument in arguments.iter().filter(|argument| argument.kind == ArgumentType::List) {
            let singular = argument.name.trim_end_matches('s');
            patterns.insert(format!("^{singular}$"), type_schema(argument.kind, generator));
        }
    }
    Value::Object(object)
}

fn type_schema(kind: ArgumentType, generator: &mut SchemaGenerator) -> Value {
    let schema = match kind {
        ArgumentType::Text => return json!({"type": ["string", "integer", "number", "boolean"]}),
        ArgumentType::Flag => return json!({"type": "boolean"}),
        ArgumentType::Number => return json!({"type": "integer", "minimum": 0}),
        ArgumentType::Size => generator.subschema_for::<Size>(),
        ArgumentType::Duration => generator.subschema_for::<Time>(),
        ArgumentType::Status => generator.subschema_for::<Status>(),
        ArgumentType::HeaderName => generator.subschema_for::<FieldName>(),
        ArgumentType::List => generator.subschema_for::<Texts>(),
    };
    schema.to_value()
}
