//! JSON Schema of predicates and filters: shortcuts, and maps with the arguments of each name.

use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value, json};
use tollgate_routing::{PredicateArgument, ValueKind};

use crate::de::Texts;

/// Turns the schema of a struct of arguments into one that refuses unknown names, accepts each name in every spelling
/// (`burst-capacity`, `burstCapacity`, `burst_capacity`), and has the defaults that the descriptions name.
pub(crate) fn arguments(schema: &mut Schema) {
    if let Some(object) = schema.as_object_mut() {
        // A required argument may have another spelling.
        object.remove("required");
        object.entry("properties").or_insert_with(|| json!({}));
        relax(object);
    }
}

/// Changes the schema of one object as [`arguments`] does.
pub(crate) fn relax(object: &mut Map<String, Value>) {
    let Some(Value::Object(properties)) = object.get_mut("properties") else { return };
    let mut patterns = Map::new();
    for (name, property) in properties.iter_mut() {
        if let Some(members) = property.as_object_mut() {
            describe_default(members);
        }
        set_default(property);
        let mut bare = property.clone();
        if let Value::Object(bare) = &mut bare {
            // Editors show the documented name only.
            bare.remove("description");
            bare.remove("default");
        }
        patterns.insert(spellings(name), bare);
    }
    // Spring's names of positional arguments.
    patterns.insert("^_genkey_[0-9]+$".to_owned(), json!(true));
    object.insert("patternProperties".to_owned(), Value::Object(patterns));
    object.insert("additionalProperties".to_owned(), Value::Bool(false));
}

/// Returns the pattern of the spellings of `name`.
fn spellings(name: &str) -> String {
    let mut pattern = "^".to_owned();
    for (at, letter) in name.chars().enumerate() {
        match letter {
            '-' => pattern.push_str("[-_]?"),
            '.' => pattern.push_str(r"\."),
            _ => {
                if letter.is_ascii_uppercase() && at > 0 {
                    pattern.push_str("[-_]?");
                }
                pattern.push_str(&format!("[{}{}]", letter.to_ascii_lowercase(), letter.to_ascii_uppercase()));
            }
        }
    }
    pattern.push('$');
    pattern
}

/// Writes the default of a key's type into its description, in place of `{}` or behind it.
pub(crate) fn describe_default(members: &mut Map<String, Value>) {
    let mut default = members.remove("x-default");
    if let Some(Value::Array(parts)) = members.get_mut("anyOf")
        && let Some(optional) = parts.iter().position(|part| part.get("x-default").is_some())
    {
        let mut optional = parts.swap_remove(optional);
        default = Some(optional["x-default"].take());
        members.insert("anyOf".to_owned(), optional["anyOf"].take());
    }
    if let (Some(default), Some(Value::String(text))) = (default, members.get_mut("description")) {
        let default = default.as_str().unwrap_or_default();
        let has_place = text.contains("{}");
        *text = if has_place { text.replace("{}", default) } else { format!("{text} Default {default}.") };
    }
}

/// Sets `default` to the literal in the description's sentence `Default …`.
fn set_default(property: &mut Value) {
    let Some(object) = property.as_object_mut() else { return };
    let Some(description) = object.get("description").and_then(Value::as_str) else { return };
    let Some(literal) = default_of(description) else { return };
    object.insert("default".to_owned(), literal);
}

/// ``Default `x`.``, `Default 5s.` and `Default 20, …` have a literal; `Default: none` has not.
fn default_of(description: &str) -> Option<Value> {
    let (_, rest) = description.rsplit_once("Default ")?;
    if let Some(quoted) = rest.strip_prefix('`') {
        return quoted.split_once('`').map(|(literal, _)| json!(literal));
    }
    let word = rest.split([' ', ',', ';']).next()?.trim_end_matches('.');
    let is_literal = ["true", "false"].contains(&word) || word.starts_with(|c: char| c.is_ascii_digit());
    is_literal.then(|| serde_json::from_str(word).unwrap_or_else(|_| json!(word)))
}

/// Returns the schema of the map of `arguments`.
pub(crate) fn argument_map(arguments: &[PredicateArgument], generator: &mut SchemaGenerator) -> Value {
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
        // Spring's names of nested arguments, such as `weight.group`.
        patterns.insert(r"^[a-zA-Z]+\.[a-zA-Z-]+$".to_owned(), json!(true));
        // A list may have the singular of its name.
        for argument in arguments.iter().filter(|argument| argument.kind == ValueKind::List) {
            let singular = argument.name.trim_end_matches('s');
            patterns.insert(format!("^{singular}$"), type_schema(argument.kind, generator));
        }
    }
    Value::Object(object)
}

fn type_schema(kind: ValueKind, generator: &mut SchemaGenerator) -> Value {
    match kind {
        ValueKind::Text => json!({"type": ["string", "integer", "number", "boolean"]}),
        ValueKind::Flag => json!({"type": "boolean"}),
        ValueKind::Number => json!({"type": "integer", "minimum": 0}),
        ValueKind::List => generator.subschema_for::<Texts>().to_value(),
    }
}

/// Accepts the dotted names of nested arguments: `backoff.firstBackoff`.
pub(crate) fn with_dotted_names(schema: &mut Schema) {
    if let Some(Value::Object(patterns)) = schema.get_mut("patternProperties") {
        patterns.insert(r"^(backoff|jitter|budget)\.".to_owned(), json!(true));
    }
}

/// Adds Spring's names to the schema: `redis-rate-limiter.replenishRate` as a key, and as a nested map.
pub(crate) fn with_prefixed_names(schema: &mut Schema) {
    let Some(object) = schema.as_object_mut() else { return };
    let Some(properties) = object.get("properties").and_then(|properties| properties.as_object()) else { return };
    let spring = [
        ("replenish-rate", "redis-rate-limiter.replenishRate"),
        ("burst-capacity", "redis-rate-limiter.burstCapacity"),
        ("requested-tokens", "redis-rate-limiter.requestedTokens"),
    ];
    let mut added = properties.clone();
    for (name, prefixed) in spring {
        if let Some(property) = properties.get(name) {
            added.insert(prefixed.to_owned(), property.clone());
        }
    }
    let mut nested = json_schema!({"type": "object", "properties": properties});
    if let Some(nested) = nested.as_object_mut() {
        relax(nested);
        nested.remove("properties");
        nested.insert("description".to_owned(), "Spring's map of these arguments.".into());
    }
    added.insert("redis-rate-limiter".to_owned(), nested.to_value());
    object.insert("properties".to_owned(), added.into());
}

/// One predicate or filter for [`definition`].
pub(crate) struct DocumentedEntry {
    pub(crate) name: &'static str,
    pub(crate) doc: &'static str,
    /// Schema of `args`.
    pub(crate) args: Value,
    /// True if a shortcut `Name=…` is accepted.
    pub(crate) has_shortcut: bool,
}

/// Returns the schema of one entry of a list of `noun`s: a shortcut, or a map with a name and the arguments of that
/// name.
pub(crate) fn definition(noun: &str, entries: &[DocumentedEntry]) -> Schema {
    let shortcuts: Vec<&str> = entries.iter().filter(|entry| entry.has_shortcut).map(|entry| entry.name).collect();
    let shortcut = json!({
        "type": "string",
        "description": format!("Shortcut of a {noun}: `Name=argument,argument`."),
        "pattern": format!(r"^\s*({})\s*(=|$)|\$\{{", shortcuts.join("|")),
    });
    let named = entries.iter().map(|entry| {
        json!({
            "type": "object",
            "description": entry.doc,
            "properties": {
                "name": {"const": entry.name, "description": entry.doc},
                "args": {"anyOf": [entry.args, {"type": "null"}], "description": format!("Arguments of `{}`.", entry.name)},
            },
            "required": ["name"],
            "additionalProperties": false,
        })
    });
    let alternatives: Vec<Value> = std::iter::once(shortcut).chain(named).collect();
    let mut schema = Schema::default();
    schema.insert("description".to_owned(), json!(format!("A {noun}: a shortcut, or a name with arguments.")));
    // Tells generators of documentation that the arguments have tables of their own.
    schema.insert("x-shortcut".to_owned(), json!(true));
    schema.insert("oneOf".to_owned(), Value::Array(alternatives));
    schema
}
