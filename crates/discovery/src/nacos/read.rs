//! Responses of Nacos.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use crate::instance::{Instance, Listed, ReadError, Unusable};

/// Codes of the API: the resource or the service does not exist.
const NOT_FOUND: [i64; 2] = [20_004, 21_008];

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Host {
    ip: String,
    port: i64,
    #[serde(default = "one")]
    weight: f64,
    #[serde(default = "yes")]
    healthy: bool,
    #[serde(default = "yes")]
    enabled: bool,
    cluster_name: Option<String>,
    metadata: Option<BTreeMap<String, String>>,
}

fn yes() -> bool {
    true
}

fn one() -> f64 {
    1.0
}

/// Returns the instances of `service` that are healthy, enabled and have a weight, and those that cannot be used.
///
/// `clusters` are names separated by commas. If it is not empty, instances of other clusters are left out: some servers
/// ignore the parameter and list all.
///
/// # Errors
/// The body is not a list of instances, or none of them can be used.
pub(crate) fn instances(body: &[u8], service: &str, clusters: &str) -> Result<Listed, ReadError> {
    let root: Value = serde_json::from_slice(body)?;
    match root.get("code").and_then(Value::as_i64) {
        None | Some(0 | 200) => {}
        Some(code) if NOT_FOUND.contains(&code) => return Ok(Listed::default()),
        Some(code) => return Err(ReadError::Code(code)),
    }
    // 1.x, then 2.x, then 3.x.
    let lists = [root.get("hosts"), root.get("data").and_then(|data| data.get("hosts")), root.get("data")];
    let hosts = lists.into_iter().flatten().find_map(Value::as_array).ok_or(ReadError::Missing("list of instances"))?;
    let is_selected = |host: &Host| {
        let name = host.cluster_name.as_deref().unwrap_or_default();
        clusters.is_empty() || name.is_empty() || clusters.split(',').any(|cluster| cluster.trim() == name)
    };
    let read = hosts.iter().map(|entry| {
        let name = format!("{}:{}", entry["ip"].as_str().unwrap_or_default(), entry["port"]);
        let host = Host::deserialize(entry).map_err(|_| Unusable::Shape);
        (name, host.and_then(|host| if is_selected(&host) { instance(host) } else { Ok(None) }))
    });
    Listed::collect(service, read)
}

/// Returns the number of services, and the names of one page of them.
///
/// # Errors
/// The body has no list of names.
pub(crate) fn names(body: &[u8]) -> Result<(usize, Vec<String>), ReadError> {
    let root: Value = serde_json::from_slice(body)?;
    let data = root.get("data").filter(|data| data.is_object()).unwrap_or(&root);
    let list =
        [data.get("doms"), data.get("services"), data.get("pageItems")].into_iter().flatten().find_map(Value::as_array);
    let name = |item: &Value| item.as_str().or_else(|| item.get("name")?.as_str()).map(str::to_owned);
    let names: Vec<String> = list.ok_or(ReadError::Missing("list of instances"))?.iter().filter_map(name).collect();
    let count = ["count", "totalCount"].iter().find_map(|key| data.get(key)?.as_u64());
    Ok((count.and_then(|count| usize::try_from(count).ok()).unwrap_or(names.len()), names))
}

/// Returns the instance of an entry; `None` if it is unhealthy or disabled, or has no weight.
fn instance(host: Host) -> Result<Option<Instance>, Unusable> {
    if !host.healthy || !host.enabled || host.weight <= 0.0 {
        return Ok(None);
    }
    let metadata = host.metadata.unwrap_or_default();
    let is_secure = metadata.get("secure").is_some_and(|secure| secure.eq_ignore_ascii_case("true"));
    let mut instance = Instance::new(&host.ip, host.port, is_secure)?.metadata(metadata, "zone");
    instance.zone = instance.zone.or(host.cluster_name.filter(|name| !name.chars().any(char::is_control)));
    // Weights are fractions of 1. The cast saturates.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive, and the cast saturates")]
    let weight = (host.weight * 100.0).round().max(1.0) as u32;
    Ok(Some(instance.weight(weight)))
}

/// Returns the access token of a login, and the seconds that it is valid for.
///
/// # Errors
/// The body has no token.
pub(crate) fn token(body: &[u8]) -> Result<(String, u64), ReadError> {
    let root: Value = serde_json::from_slice(body)?;
    let fields = root.get("data").filter(|data| data.is_object()).unwrap_or(&root);
    let text = fields.get("accessToken").and_then(Value::as_str).filter(|text| !text.is_empty() && text.len() < 8192);
    let seconds = fields.get("tokenTtl").and_then(Value::as_u64).unwrap_or(600);
    Ok((text.ok_or(ReadError::Missing("access token"))?.to_owned(), seconds))
}

#[cfg(test)]
mod tests;
