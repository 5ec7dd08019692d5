//! Keys of the configuration with their documentation, from the JSON Schema.

use serde_json::Value;

use super::schema::schema;
use crate::restart;

/// Configuration key and the keys below it.
#[derive(Debug)]
pub(super) struct Key {
    pub(super) name: String,
    /// Doc comment, on one line.
    pub(super) description: String,
    /// Sentence `Default …` or `Required` of the doc comment.
    pub(super) default: DefaultValue,
    /// Other sentences of the doc comment.
    pub(super) meaning: String,
    /// True if a change needs a restart.
    pub(super) needs_restart: bool,
    /// True for a section that may be absent: `redis`, `jwt`.
    pub(super) is_optional: bool,
    pub(super) shape: Shape,
    /// An example value, for a key without a default.
    pub(super) example: String,
}

/// Kind of a key's value.
#[derive(Debug)]
pub(super) enum Shape {
    Value,
    Section(Vec<Key>),
    /// A map from free names to sections.
    Named(Vec<Key>),
    /// A list of sections.
    List(Vec<Key>),
}

/// Returns the keys at the top level.
pub(super) fn keys() -> Vec<Key> {
    let schema = schema();
    Walk { schema: &schema }.properties(&schema, "")
}

/// Default of a key, from its description.
#[derive(Debug, Default, PartialEq)]
pub(super) struct DefaultValue {
    /// The value, if it can be written: a number, a time, a boolean, or a quoted text.
    pub(super) literal: Option<String>,
    /// Text after the value, or the whole text without a value.
    pub(super) words: String,
}

impl DefaultValue {
    /// Returns the default as a cell of a Markdown table.
    pub(super) fn cell(&self) -> String {
        let literal = self.literal.as_ref().map(|literal| format!("`{literal}`")).unwrap_or_default();
        format!("{literal}{}", self.words)
    }
}

struct Walk<'s> {
    schema: &'s Value,
}

impl<'s> Walk<'s> {
    /// Returns the keys of the section at `path`, which ends with a dot.
    fn properties(&self, node: &'s Value, path: &str) -> Vec<Key> {
        let properties = node["properties"].as_object().into_iter().flatten();
        properties.map(|(name, field)| self.key(name, field, &format!("{path}{name}"))).collect()
    }

    fn key(&self, name: &str, field: &'s Value, path: &str) -> Key {
        let parts = self.parts(field);
        let mut description = field["description"].as_str().unwrap_or_default().replace('\n', " ");
        if let Some(range) = parts.iter().find_map(|part| range(part)) {
            description = format!("{description} {range}.");
        }
        let (meaning, default) = split(&description);
        Key {
            name: name.to_owned(),
            default,
            meaning,
            needs_restart: restart::keys().any(|key| format!("{path}.").starts_with(&format!("{key}."))),
            is_optional: field["anyOf"].as_array().is_some_and(|parts| parts.iter().any(|part| part["type"] == "null")),
            shape: self.shape(&parts, path),
            example: example(field, &parts),
            description,
        }
    }

    fn shape(&self, parts: &[&'s Value], path: &str) -> Shape {
        for part in parts {
            if part.get("properties").is_some() {
                return Shape::Section(self.properties(part, &format!("{path}.")));
            }
            for (inner, wrap) in [("additionalProperties", Shape::Named as fn(_) -> _), ("items", Shape::List)] {
                let inner = self.parts(&part[inner]);
                // Predicates and filters have tables of their own.
                let has_table = inner.iter().any(|inner| inner["x-shortcut"] == true);
                let section = inner.into_iter().find(|inner| inner["properties"].is_object());
                if let Some(section) = section.filter(|_| !has_table) {
                    return wrap(self.properties(section, &format!("{path}.NAME.")));
                }
            }
        }
        Shape::Value
    }

    /// Returns the alternatives of a schema, or the schema itself; follows references.
    fn parts(&self, node: &'s Value) -> Vec<&'s Value> {
        if let Some(reference) = node["$ref"].as_str() {
            return self.parts(self.schema.pointer(reference.trim_start_matches('#')).unwrap());
        }
        match node["anyOf"].as_array() {
            Some(alternatives) => alternatives.iter().flat_map(|part| self.parts(part)).collect(),
            None => vec![node],
        }
    }
}

/// Splits a description into meaning and default.
///
/// `Default 5s, as Spring's.` and ``Default `x`.`` have a value. Any other form, such as `Default: none`, is text.
pub(super) fn split(description: &str) -> (String, DefaultValue) {
    let (mut meaning, mut default) = (Vec::new(), None);
    for sentence in description.trim_end_matches('.').split(". ") {
        match sentence.strip_prefix("Default") {
            Some(rest) if default.is_none() => default = Some(of_sentence(rest)),
            _ if sentence == "Required" => {
                default = Some(DefaultValue { literal: None, words: "required".to_owned() });
            }
            _ => meaning.push(sentence),
        }
    }
    (meaning.join(". "), default.unwrap_or_default())
}

fn of_sentence(rest: &str) -> DefaultValue {
    let text = rest.trim_start_matches([':', ' ']);
    if let Some((literal, words)) = text.strip_prefix('`').and_then(|text| text.split_once('`')) {
        return DefaultValue { literal: Some(literal.to_owned()), words: words.to_owned() };
    }
    let (word, words) = text.split_at(text.find([' ', ',', ';', ':']).unwrap_or(text.len()));
    let digits = word.trim_start_matches('-');
    let is_value = ["true", "false"].contains(&word) || digits.starts_with(|c: char| c.is_ascii_digit());
    if is_value && !rest.starts_with(':') {
        DefaultValue { literal: Some(word.to_owned()), words: words.to_owned() }
    } else {
        DefaultValue { literal: None, words: text.to_owned() }
    }
}

/// Returns the range of a schema, as a sentence without its full stop.
fn range(part: &Value) -> Option<String> {
    let text = match (part["x-range"].as_str(), part["minimum"].as_u64()) {
        (Some(range), _) => range.to_owned(),
        (None, Some(1)) if part.get("maximum").is_none() => "at least 1".to_owned(),
        _ => return None,
    };
    let (first, rest) = text.split_at_checked(1)?;
    Some(format!("{}{rest}", first.to_uppercase()))
}

/// Returns an example value for a schema.
fn example(field: &Value, parts: &[&Value]) -> String {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    if let Some(given) = field["examples"].get(0).or_else(|| parts.iter().find_map(|part| part["examples"].get(0))) {
        return text(given);
    }
    let kind = |name: &str| parts.iter().any(|part| part["type"] == name || has(&part["type"], name));
    let words = parts.iter().find_map(|part| part["oneOf"].get(0)?["const"].as_str());
    match words {
        Some(word) => word.to_owned(),
        None if kind("boolean") => "true".to_owned(),
        None if kind("integer") => "1".to_owned(),
        None if kind("array") => "[…]".to_owned(),
        None if kind("object") => "{…}".to_owned(),
        None => "…".to_owned(),
    }
}

fn has(list: &Value, name: &str) -> bool {
    list.as_array().is_some_and(|list| list.iter().any(|item| item == name))
}

#[test]
fn a_default_is_split_from_the_meaning() {
    let (meaning, default) = split("Port to listen on. Default 8080, as Spring Boot's; SERVER_PORT overrides it.");
    assert_eq!(meaning, "Port to listen on");
    assert_eq!(default.literal.as_deref(), Some("8080"));
    assert_eq!(default.words, ", as Spring Boot's; SERVER_PORT overrides it");
    assert_eq!(split("Its host. Default `localhost`.").1.literal.as_deref(), Some("localhost"));
    for (text, words) in [
        ("User name. Default: the user `default`.", "the user `default`"),
        ("The key set. Required.", "required"),
        ("Default: 0, the only one.", "0, the only one"),
        ("A name.", ""),
    ] {
        assert_eq!(split(text).1, DefaultValue { literal: None, words: words.to_owned() });
    }
}

#[test]
fn every_setting_that_needs_a_restart_is_a_key() {
    let keys = keys();
    for path in restart::keys() {
        let found = path.split('.').try_fold(keys.as_slice(), |keys, name| {
            let key = keys.iter().find(|key| key.name == name)?;
            Some(if let Shape::Section(inner) = &key.shape { inner.as_slice() } else { &[] })
        });
        assert!(found.is_some(), "{path}");
    }
}
