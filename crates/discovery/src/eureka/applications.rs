//! Responses of Eureka's `/apps/` and `/apps/delta`, and the table of all instances by the names that clients look up.
//!
//! Servers differ in the JSON of lists with one element, and of numbers: both forms are read.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::rc::Rc;

use serde_json::{Map, Value};

use crate::instance::{Instance, ReadError, Unusable};
use crate::status::IgnoredInstances;

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

/// Application and id of an instance.
type Key = (String, String);

/// Instances of all applications.
#[derive(Clone, Debug, Default)]
pub(crate) struct EurekaTable {
    entries: BTreeMap<Key, Rc<EurekaEntry>>,
    /// Instances by the names that clients look up, in upper case.
    by_name: BTreeMap<String, BTreeSet<Key>>,
    /// Number of instances without id or application.
    nameless: usize,
}

impl EurekaTable {
    /// Returns the table of a whole registry.
    ///
    /// # Errors
    /// It has instances, but none can be used.
    pub(crate) fn of(all: Applications) -> Result<Self, ReadError> {
        let count = all.entries.len() + all.unusable;
        let problem = all.entries.iter().find_map(|entry| entry.instance.as_ref().err().copied());
        let has_any = all.entries.iter().any(|entry| entry.instance.is_ok());
        if count > 0 && !has_any {
            return Err(ReadError::NoneUsable(count, problem.unwrap_or(Unusable::Shape)));
        }
        let mut table = Self::default();
        table.change(all);
        Ok(table)
    }

    /// Applies changes.
    pub(crate) fn change(&mut self, changes: Applications) {
        self.nameless = self.nameless.max(changes.unusable);
        for entry in changes.entries {
            let key = (entry.application.clone(), entry.id.clone());
            if let Some(before) = self.entries.remove(&key) {
                for name in before.names() {
                    if let Some(keys) = self.by_name.get_mut(name) {
                        keys.remove(&key);
                    }
                }
            }
            if entry.action == Action::Deleted {
                continue;
            }
            for name in entry.names() {
                self.by_name.entry(name.to_owned()).or_default().insert(key.clone());
            }
            self.entries.insert(key, Rc::new(entry));
        }
        self.by_name.retain(|_, keys| !keys.is_empty());
    }

    /// Returns the counts of instances by status, as servers write them: `DOWN_1_UP_2_`.
    pub(crate) fn hash(&self) -> String {
        let mut counts = BTreeMap::<&str, usize>::new();
        for entry in self.entries.values() {
            *counts.entry(&entry.status).or_default() += 1;
        }
        counts.iter().fold(String::new(), |mut text, (status, count)| {
            // Writing to a String cannot fail.
            let _ = write!(text, "{status}_{count}_");
            text
        })
    }

    /// Returns the names of the applications that have an instance with the status `UP`.
    pub(crate) fn names(&self) -> BTreeSet<String> {
        let up = self.entries.values().filter(|entry| entry.status == "UP" && entry.instance.is_ok());
        up.map(|entry| entry.application.clone()).collect()
    }

    /// Returns the instances that cannot be used, by application. Those without one have the name `-`.
    pub(crate) fn ignored(&self) -> BTreeMap<String, IgnoredInstances> {
        let mut ignored: BTreeMap<String, Option<IgnoredInstances>> = BTreeMap::new();
        for entry in self.entries.values() {
            if let Err(reason) = entry.instance {
                let of_service = ignored.entry(entry.application.clone()).or_default();
                IgnoredInstances::add(of_service, &entry.application, &entry.id, reason);
            }
        }
        for _ in 0..self.nameless {
            IgnoredInstances::add(ignored.entry("-".to_owned()).or_default(), "-", "-", Unusable::Shape);
        }
        ignored.into_iter().filter_map(|(service, ignored)| Some((service, ignored?))).collect()
    }

    /// Returns the usable instances of the service `name`.
    pub(crate) fn instances(&self, name: &str, only_up: bool) -> Vec<Instance> {
        let keys = self.by_name.get(&name.to_uppercase()).into_iter().flatten();
        let entries = keys.filter_map(|key| self.entries.get(key));
        let used = entries.filter(|entry| !only_up || entry.status == "UP");
        used.filter_map(|entry| entry.instance.clone().ok()).collect()
    }
}

#[cfg(test)]
mod tests;
