//! The keys of the YAML with what their doc comments say, out of the schema.

use serde_json::Value;

use crate::schema::schema;

/// One key and those below it.
#[derive(Debug)]
pub(super) struct Key {
    pub(super) name: String,
    /// The doc comment, on one line.
    pub(super) description: String,
    /// What the doc comment says in its sentence `Default …` or `Required`.
    pub(super) default: Default,
    /// The rest of it.
    pub(super) meaning: String,
    /// Whether a reload leaves it as it was.
    pub(super) needs_restart: bool,
    /// Whether it may be absent as a whole, and is unless it is written: `redis`, `jwt`.
    pub(super) is_optional: bool,
    pub(super) shape: Shape,
    /// A value that it could have, for one that has none by default.
    pub(super) example: String,
}

/// What stands behind a key.
#[derive(Debug)]
pub(super) enum Shape {
    Value,
    Section(Vec<Key>),
    /// A section for each name of the author's.
    Named(Vec<Key>),
    /// A list of sections.
    List(Vec<Key>),
}

/// Every key at the top level.
pub(super) fn keys() -> Vec<Key> {
    let schema = schema();
    Walk { schema: &schema }.properties(&schema, false)
}

/// What a description says of the default.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Default {
    /// It, where it can be written down: a number, a time, a flag, or what is quoted.
    pub(super) literal: Option<String>,
    /// What follows it, or all where it cannot be written down.
    pub(super) words: String,
}

struct Walk<'s> {
    schema: &'s Value,
}

impl<'s> Walk<'s> {
    fn properties(&self, node: &'s Value, needs_restart: bool) -> Vec<Key> {
        let properties = node["properties"].as_object().into_iter().flatten();
        properties.map(|(name, field)| self.key(name, field, needs_restart)).collect()
    }

    fn key(&self, name: &str, field: &'s Value, needs_restart: bool) -> Key {
        let parts = self.parts(field);
        let says = |word: &str| field[word] == true || parts.iter().any(|part| part[word] == true);
        let needs_restart = needs_restart || says("x-needs-restart");
        let description = field["description"].as_str().unwrap_or_default().replace('\n', " ");
        let (meaning, default) = split(&description);
        Key {
            name: name.to_owned(),
            default,
            meaning,
            needs_restart,
            is_optional: field["anyOf"].as_array().is_some_and(|parts| parts.iter().any(|part| part["type"] == "null")),
            shape: self.shape(&parts, needs_restart),
            example: example(field, &parts),
            description,
        }
    }

    fn shape(&self, parts: &[&'s Value], needs_restart: bool) -> Shape {
        for part in parts {
            if is_spec(part) {
                return Shape::Value;
            }
            if part.get("properties").is_some() {
                return Shape::Section(self.properties(part, needs_restart));
            }
            for (inner, wrap) in [("additionalProperties", Shape::Named as fn(_) -> _), ("items", Shape::List)] {
                let inner = self.parts(&part[inner]);
                let section = inner.iter().find(|inner| inner["properties"].is_object());
                if let Some(section) = section.filter(|_| !inner.iter().any(|inner| is_spec(inner))) {
                    return wrap(self.properties(section, needs_restart));
                }
            }
        }
        Shape::Value
    }

    /// What a field can be: itself, or each of its alternatives, references followed.
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

/// Returns true for the schema of a predicate or filter, which has a table of its own.
fn is_spec(part: &Value) -> bool {
    let has_args = |part: &Value| part["properties"].get("args").is_some();
    has_args(part) || part["oneOf"].as_array().is_some_and(|parts| parts.iter().any(has_args))
}

/// What a description says besides the default, and of the default.
///
/// `Default 5s, as Spring's.` and ``Default `x`.`` name values; `Default: none` and all else is words.
fn split(description: &str) -> (String, Default) {
    let (mut meaning, mut default) = (Vec::new(), None);
    for sentence in description.trim_end_matches('.').split(". ") {
        match sentence.strip_prefix("Default") {
            Some(rest) if default.is_none() => default = Some(of_sentence(rest)),
            _ if sentence == "Required" => {
                default = Some(Default { literal: None, words: "required".to_owned() });
            }
            _ => meaning.push(sentence),
        }
    }
    (meaning.join(". "), default.unwrap_or_default())
}

fn of_sentence(rest: &str) -> Default {
    let text = rest.trim_start_matches([':', ' ']);
    if let Some((literal, words)) = text.strip_prefix('`').and_then(|text| text.split_once('`')) {
        return Default { literal: Some(literal.to_owned()), words: words.to_owned() };
    }
    let (word, words) = text.split_at(text.find([' ', ',', ';', ':']).unwrap_or(text.len()));
    let digits = word.trim_start_matches('-');
    let is_value = ["true", "false"].contains(&word) || digits.starts_with(|c: char| c.is_ascii_digit());
    if is_value && !rest.starts_with(':') {
        Default { literal: Some(word.to_owned()), words: words.to_owned() }
    } else {
        Default { literal: None, words: text.to_owned() }
    }
}

/// A value for a key whose author gave none: by what its schema takes.
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
fn a_default_is_told_from_what_a_key_means() {
    let (meaning, default) = split("Port to listen on. Default 8080, as Spring Boot's; SERVER_PORT overrides it.");
    assert_eq!(meaning, "Port to listen on");
    assert_eq!(default.literal.as_deref(), Some("8080"));
    assert_eq!(default.words, ", as Spring Boot's; SERVER_PORT overrides it");
    assert_eq!(split("Its host. Default `localhost`.").1.literal.as_deref(), Some("localhost"));
    for (text, words) in [
        ("Who logs in. Default: the user `default`.", "the user `default`"),
        ("The key set. Required.", "required"),
        ("Default: 0, the only one.", "0, the only one"),
        ("A name.", ""),
    ] {
        assert_eq!(split(text).1, Default { literal: None, words: words.to_owned() });
    }
}
