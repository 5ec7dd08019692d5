//! Descriptions of the endpoints, for the OpenAPI document, and JSON Schemas of replies and bodies from their types.

use schemars::generate::SchemaSettings;
use schemars::transform::{RecursiveTransform, Transform};
use schemars::{JsonSchema, Schema};
use serde_json::{Value, json};

use crate::admin::reply::Problem;

/// Description of one endpoint.
#[derive(Debug)]
pub(super) struct Description {
    /// Name of the operation, unique.
    pub(super) id: &'static str,
    pub(super) summary: &'static str,
    /// Query parameters.
    pub(super) query: Vec<(&'static str, &'static str, Value)>,
    /// Schema of the body; it is JSON.
    pub(super) body: Option<Value>,
    /// Media type and schema of the response with status 200.
    pub(super) success: (&'static str, Value),
    /// Further statuses with their meaning; 503 of readiness is JSON, all others are problems.
    pub(super) further: Vec<(u16, &'static str)>,
    /// Status and schema of a problem that has more members than RFC 9457 names.
    special_problem: Option<(u16, Value)>,
}

const JSON: &str = "application/json";
pub(super) const SLOW_BODY: (u16, &str) = (408, "The body did not arrive in time");

impl Description {
    /// Adds a query parameter.
    pub(super) fn with(mut self, name: &'static str, meaning: &'static str, schema: Value) -> Self {
        self.query.push((name, meaning, schema));
        self
    }

    /// Sets the type of the body, and adds its errors.
    pub(super) fn sends<T: JsonSchema>(self) -> Self {
        self.with_body::<T>().or(&[(400, "Invalid body"), SLOW_BODY])
    }

    /// Sets the type of the body.
    pub(super) fn with_body<T: JsonSchema>(self) -> Self {
        Self { body: Some(of_body::<T>()), ..self }
    }

    /// Sets the members that the problem with `status` may have.
    pub(super) fn with_problem<T: JsonSchema>(self, status: u16) -> Self {
        Self { special_problem: Some((status, of_reply::<Problem<'_, T>>())), ..self }
    }

    /// Returns the schema of the problem with `status`.
    pub(super) fn problem(&self, status: u16) -> Value {
        match &self.special_problem {
            Some((special, schema)) if *special == status => schema.clone(),
            _ => json!({"$ref": "#/components/schemas/Problem"}),
        }
    }

    /// Adds statuses.
    pub(super) fn or(mut self, further: &[(u16, &'static str)]) -> Self {
        self.further.extend(further);
        self
    }
}

fn described(id: &'static str, summary: &'static str, success: (&'static str, Value)) -> Description {
    Description { id, summary, query: Vec::new(), body: None, success, further: Vec::new(), special_problem: None }
}

/// Describes an endpoint that returns JSON of type `T`.
pub(super) fn json<T: JsonSchema>(id: &'static str, summary: &'static str) -> Description {
    described(id, summary, (JSON, of_reply::<T>()))
}

/// Describes an endpoint that sends events whose data is JSON of type `T`.
pub(super) fn stream<T: JsonSchema>(id: &'static str, summary: &'static str) -> Description {
    let schema = json!({"type": "string", "contentMediaType": "application/json", "contentSchema": of_reply::<T>()});
    described(id, summary, ("text/event-stream", schema))
}

pub(super) fn text(id: &'static str, summary: &'static str, media_type: &'static str) -> Description {
    described(id, summary, (media_type, of_reply::<String>()))
}

/// Returns the schema of a reply.
pub(super) fn of_reply<T: JsonSchema>() -> Value {
    schema::<T>(SchemaSettings::draft2020_12().for_serialize())
}

/// Returns the schema of a body.
pub(super) fn of_body<T: JsonSchema>() -> Value {
    schema::<T>(SchemaSettings::draft2020_12().for_deserialize())
}

fn schema<T: JsonSchema>(settings: SchemaSettings) -> Value {
    let mut schema = settings.with(|settings| settings.inline_subschemas = true).into_generator().subschema_for::<T>();
    RecursiveTransform(without_null).transform(&mut schema);
    // Serialization sorts keywords, so that equal types have equal texts.
    serde_json::to_value(schema).unwrap_or_default()
}

/// Removes null from members that may be absent: they are left out instead.
fn without_null(schema: &mut Schema) {
    let required = schema.get("required").cloned().unwrap_or_default();
    let is_required = |name: &str| required.as_array().is_some_and(|names| names.contains(&json!(name)));
    for (name, member) in schema.get_mut("properties").and_then(Value::as_object_mut).into_iter().flatten() {
        if let Some([value_type, Value::String(null)]) = member["type"].as_array().map(Vec::as_slice)
            && null == "null"
            && !is_required(name)
        {
            member["type"] = value_type.clone();
        }
    }
}
