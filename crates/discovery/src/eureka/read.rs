//! Responses of Eureka's `/apps/` and `/apps/delta`.
//!
//! Servers differ in the JSON of lists with one element, and of numbers: both forms are read.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::instance::{Instance, ReadError, Unusable};

/// Applications of a response.
#[derive(Debug, Default)]
pub(crate) struct Applications {
    /// Counts of instances by status in the whole registry.
    pub(crate) hash: Option<String>,
    pub(crate) entries: Vec<EurekaEntry>,
    /// Number of instances without id or application.
    pub(crate) unusable: usize,
}

/// Instance of an application.
#[derive(Clone, Debug)]
pub(crate) struct EurekaEntry {
    /// Name of the application, in upper case.
    pub(crate) application: String,
    pub(crate) id: String,
    /// Virtual addresses, in upper case.
    vips: Vec<String>,
    pub(crate) status: String,
    pub(crate) action: Action,
    pub(crate) instance: Result<Instance, Unusable>,
}

/// Change of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// It is new or has changed.
    Present,
    /// It is gone.
    Deleted,
}

impl Applications {
    /// Reads a response.
    ///
    /// # Errors
    /// It is not a list of applications in JSON.
    pub(crate) fn read(body: &[u8]) -> Result<Self, ReadError> {
        let root: Value = serde_json::from_slice(body)?;
        let applications =
            root.get("applications").and_then(Value::as_object).ok_or(ReadError::Missing("`applications`"))?;
        let mut read = Self { hash: text(applications, "apps__hashcode"), ..Self::default() };
        for application in items(applications.get("application")) {
            let name = application.get("name").and_then(Value::as_str).map(str::to_uppercase);
            for instance in items(application.get("instance")) {
                match instance.as_object().and_then(|fields| EurekaEntry::read(fields, name.as_deref())) {
                    Some(entry) => read.entries.push(entry),
                    None => read.unusable += 1,
                }
            }
        }
        Ok(read)
    }
}

impl EurekaEntry {
    /// Reads an instance; `None` if it has no id or no application, so that it cannot be identified.
    fn read(fields: &Map<String, Value>, application: Option<&str>) -> Option<Self> {
        let application =
            text(fields, "app").map(|name| name.to_uppercase()).or_else(|| application.map(str::to_owned))?;
        let id = text(fields, "instanceId").or_else(|| text(fields, "hostName"))?;
        let vips = text(fields, "vipAddress").unwrap_or_default();
        let vips: Vec<_> = vips.split(',').map(|vip| vip.trim().to_uppercase()).filter(|vip| !vip.is_empty()).collect();
        let action = match text(fields, "actionType").as_deref() {
            Some("DELETED") => Action::Deleted,
            _ => Action::Present,
        };
        let status = text(fields, "status").unwrap_or_else(|| "UNKNOWN".to_owned());
        Some(Self { application, id, vips, status, action, instance: instance(fields) })
    }

    /// Returns the names by which clients look it up.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        let application = self.vips.is_empty().then_some(self.application.as_str());
        self.vips.iter().map(String::as_str).chain(application)
    }
}

fn instance(fields: &Map<String, Value>) -> Result<Instance, Unusable> {
    let (port, _) = port(fields.get("port"));
    let (secure_port, is_secure) = self::port(fields.get("securePort"));
    let host = text(fields, "hostName").or_else(|| text(fields, "ipAddr")).ok_or(Unusable::Host)?;
    let port = if is_secure { secure_port } else { port }.ok_or(Unusable::Port)?;
    let metadata: BTreeMap<String, String> = match fields.get("metadata") {
        Some(Value::Object(entries)) => entries
            .iter()
            .filter(|(key, _)| !key.starts_with('@'))
            .filter_map(|(key, value)| Some((key.clone(), scalar(value)?)))
            .collect(),
        _ => BTreeMap::new(),
    };
    Ok(Instance::new(&host, port, is_secure)?.metadata(metadata, "zone"))
}

/// Returns a port, and true if it is enabled: `{"$": 8080, "@enabled": "true"}`.
fn port(value: Option<&Value>) -> (Option<i64>, bool) {
    let number = |value: &Value| value.as_i64().or_else(|| value.as_str()?.trim().parse().ok());
    match value {
        Some(Value::Object(fields)) => {
            let is_enabled = fields.get("@enabled").and_then(scalar).is_some_and(|text| text == "true");
            (fields.get("$").and_then(number), is_enabled)
        }
        Some(value) => (number(value), false),
        None => (None, false),
    }
}

/// Returns the elements of a list, or the only element, which some servers write without a list.
fn items(value: Option<&Value>) -> &[Value] {
    match value {
        None | Some(Value::Null) => &[],
        Some(Value::Array(items)) => items,
        Some(one) => std::slice::from_ref(one),
    }
}

fn text(fields: &Map<String, Value>, key: &str) -> Option<String> {
    fields.get(key).and_then(scalar).filter(|text| !text.is_empty())
}

fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(flag) => Some(flag.to_string()),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
