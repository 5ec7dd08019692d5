//! Responses of Consul's `/v1/health/service/NAME`.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::Value;

use crate::instance::{Instance, Listed, ReadError, Unusable};

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Entry {
    #[serde(default)]
    node: Node,
    service: Service,
    #[serde(default)]
    checks: Vec<Check>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Node {
    address: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Service {
    #[serde(default)]
    address: String,
    port: i64,
    tags: Option<Vec<String>>,
    meta: Option<BTreeMap<String, String>>,
    weights: Option<Weights>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Weights {
    passing: i64,
    warning: i64,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Check {
    #[serde(default)]
    status: String,
}

/// Returns the instances of `service` that no check marks as critical, and those that cannot be used.
///
/// # Errors
/// The body is not a list, or none of its entries can be used.
pub(crate) fn instances(body: &[u8], service: &str, zone_key: &str) -> Result<Listed, ReadError> {
    let entries: Vec<Value> = serde_json::from_slice(body)?;
    let read = entries.into_iter().map(|entry| {
        let id = entry["Service"]["ID"].as_str().unwrap_or_default().to_owned();
        let entry = serde_json::from_value(entry).map_err(|_| Unusable::Shape);
        (id, entry.and_then(|entry| instance(entry, zone_key)))
    });
    Listed::collect(service, read)
}

/// Returns the names of a response of `/v1/catalog/services`, without Consul itself.
///
/// # Errors
/// The body is not a map.
pub(crate) fn names(body: &[u8]) -> Result<BTreeSet<String>, ReadError> {
    let services: BTreeMap<String, Value> = serde_json::from_slice(body)?;
    Ok(services.into_keys().filter(|name| name != "consul").collect())
}

/// Returns the instance of an entry; `None` if it is critical.
fn instance(entry: Entry, zone_key: &str) -> Result<Option<Instance>, Unusable> {
    let is = |status: &str| entry.checks.iter().any(|check| check.status == status);
    if is("critical") || is("maintenance") {
        return Ok(None);
    }
    let has_warning = is("warning");
    let Service { address, port, tags, meta, weights } = entry.service;
    let host = if address.is_empty() { &entry.node.address } else { &address };
    // Before Consul had metadata, Spring wrote them as tags.
    let tags = tags.unwrap_or_default();
    let tags = tags.iter().filter_map(|tag| tag.split_once('=')).map(|(key, value)| (key.to_owned(), value.to_owned()));
    let metadata: BTreeMap<String, String> = tags.chain(meta.unwrap_or_default()).collect();
    let is_secure = metadata.get("secure").is_some_and(|secure| secure.eq_ignore_ascii_case("true"));
    let weight = weights.map_or(1, |weights| if has_warning { weights.warning } else { weights.passing });
    let instance = Instance::new(host, port, is_secure)?.metadata(metadata, zone_key);
    Ok(Some(instance.weight(u32::try_from(weight.max(0)).unwrap_or(u32::MAX))))
}

#[cfg(test)]
mod tests;
