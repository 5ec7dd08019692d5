//! Comparison of responses with the schemas of the document.

use std::collections::BTreeSet;

use serde_json::Value;

/// Compares responses with a document, and notes the members that it has seen.
pub(super) struct Checker {
    document: Value,
    /// Schemas of objects with the names of their members. Operations share schemas.
    seen: BTreeSet<(String, String)>,
    /// Operations with a status.
    responded: BTreeSet<String>,
    faults: Vec<String>,
}

impl Checker {
    pub(super) fn new(document: Value) -> Self {
        Self { document, seen: BTreeSet::new(), responded: BTreeSet::new(), faults: Vec::new() }
    }

    /// Compares a response with the schema of the operation `method` on `path`, a path of the document.
    pub(super) fn check(&mut self, method: &str, path: &str, status: u16, body: &Value) {
        let operation = &self.document["paths"][path][method.to_lowercase()];
        let content = operation["responses"][status.to_string()]["content"].clone();
        let at = format!("{} {status}", operation["operationId"].as_str().unwrap_or("undocumented"));
        let schema = content.as_object().and_then(|content| content.values().next()).cloned();
        let Some(schema) = schema else { panic!("{method} {path}: {status} is not documented: {body}") };
        self.responded.insert(at.clone());
        let fault = self.fault(&at, &schema["schema"], body);
        self.faults.extend(fault);
    }

    /// Returns the first difference.
    fn fault(&mut self, at: &str, schema: &Value, value: &Value) -> Option<String> {
        let schema = &self.resolved(schema);
        if *schema == Value::Bool(true) {
            return None;
        }
        if let Some(choices) = schema["anyOf"].as_array().or(schema["oneOf"].as_array()) {
            let faults: Option<Vec<_>> = choices.iter().map(|choice| self.fault(at, choice, value)).collect();
            return faults.map(|faults| faults.join("; "));
        }
        let types = schema["type"].as_array().map_or(std::slice::from_ref(&schema["type"]), Vec::as_slice);
        let is_of_type = types.iter().any(|name| match name.as_str().unwrap_or_default() {
            "object" => value.is_object(),
            "array" => value.is_array(),
            "string" => value.is_string(),
            "integer" => value.is_i64() || value.is_u64(),
            "number" => value.is_number(),
            "boolean" => value.is_boolean(),
            "null" => value.is_null(),
            other => panic!("{at}: unknown type `{other}` in {schema}"),
        });
        let is_listed = schema["enum"].as_array().is_none_or(|values| values.contains(value));
        let is_listed = is_listed && schema.get("const").is_none_or(|constant| constant == value);
        if !is_of_type || !is_listed {
            return Some(format!("{at}: {value} is not {schema}"));
        }
        let members = value.as_object().into_iter().flatten();
        let items = value.as_array().into_iter().flatten();
        let missing = schema["required"].as_array().filter(|_| value.is_object()).into_iter().flatten();
        let missing = missing.filter_map(Value::as_str).find(|name| value.get(name).is_none());
        missing
            .map(|name| format!("{at}: `{name}` is missing in {value}"))
            .or_else(|| items.into_iter().find_map(|item| self.fault(&format!("{at}[]"), &schema["items"], item)))
            .or_else(|| {
                members.into_iter().find_map(|(name, value)| match schema["properties"].get(name) {
                    Some(member) => {
                        let at = format!("{at}.{name}");
                        self.seen.insert((schema.to_string(), name.clone()));
                        self.fault(&at, member, value)
                    }
                    None if schema["additionalProperties"].is_object() => {
                        self.fault(&format!("{at}.*"), &schema["additionalProperties"], value)
                    }
                    None if schema["additionalProperties"] == true => None,
                    None => Some(format!("{at}: `{name}` is not documented: {value}")),
                })
            })
    }

    fn resolved(&self, schema: &Value) -> Value {
        let name = schema["$ref"].as_str().and_then(|name| name.strip_prefix('#'));
        name.map_or_else(|| schema.clone(), |name| self.document.pointer(name).unwrap().clone())
    }

    /// Panics if a response differed. Returns the documented members of successful responses that no response had.
    pub(super) fn finish(self) -> Vec<String> {
        assert!(self.faults.is_empty(), "{:#?}", self.faults);
        let mut unseen = Vec::new();
        let paths = self.document["paths"].as_object().unwrap();
        for operation in paths.values().flat_map(|path| path.as_object().unwrap().values()) {
            for (status, response) in operation["responses"].as_object().unwrap() {
                let schema = &response["content"]["application/json"]["schema"];
                if !schema.is_null() {
                    let at = format!("{} {status}", operation["operationId"].as_str().unwrap());
                    if !self.responded.contains(&at) {
                        unseen.push(at.clone());
                    }
                    self.unseen(&at, schema, &mut unseen);
                }
            }
        }
        unseen.sort();
        unseen
    }

    /// Adds the members of `schema`, those of their members included, that no response had.
    fn unseen(&self, at: &str, schema: &Value, unseen: &mut Vec<String>) {
        let schema = self.resolved(schema);
        for choice in ["anyOf", "oneOf"].iter().flat_map(|name| schema[name].as_array().into_iter().flatten()) {
            self.unseen(at, choice, unseen);
        }
        for (name, member) in schema["properties"].as_object().into_iter().flatten() {
            if !self.seen.contains(&(schema.to_string(), name.clone())) {
                unseen.push(format!("{at}.{name}"));
            }
            self.unseen(&format!("{at}.{name}"), member, unseen);
        }
        if !schema["items"].is_null() {
            self.unseen(&format!("{at}[]"), &schema["items"], unseen);
        }
        if schema["additionalProperties"].is_object() {
            self.unseen(&format!("{at}.*"), &schema["additionalProperties"], unseen);
        }
    }
}
