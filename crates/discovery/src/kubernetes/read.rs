//! Lists and events of EndpointSlices (`discovery.k8s.io/v1`).

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use crate::instance::{Instance, ReadError, Unusable};
use crate::status::IgnoredInstances;
use tollgate_config::Kubernetes;

/// Label with the name of a slice's service.
pub(crate) const SERVICE_NAME: &str = "kubernetes.io/service-name";
/// Label of a service with the name of its port.
const PRIMARY_PORT: &str = "primary-port-name";
/// Label of a service that is called over `https`.
const SECURED: &str = "secured";
/// Maximum number of endpoints of a slice: the limit of the API.
const MAX_ENDPOINTS: usize = 1000;

/// Page of a list.
#[derive(Debug)]
pub(crate) struct Page {
    /// Version of the list.
    pub(crate) version: String,
    /// Token of the next page; `None` for the last one.
    pub(crate) next: Option<String>,
    pub(crate) slices: Vec<(SliceKey, EndpointSlice)>,
    /// Slices that cannot be used: namespace and name, and the reason.
    pub(crate) ignored: Vec<(String, IgnoredInstances)>,
}

/// Namespace and name of a slice.
pub(crate) type SliceKey = (String, String);

/// The endpoints of a slice that can be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EndpointSlice {
    pub(crate) service: String,
    pub(crate) is_ipv4: bool,
    pub(crate) endpoints: Vec<SliceEndpoint>,
    /// Those that cannot be used.
    pub(crate) ignored: Option<IgnoredInstances>,
}

/// SliceEndpoint with its state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SliceEndpoint {
    pub(crate) instance: Instance,
    pub(crate) is_ready: bool,
    /// True if the endpoint still serves while it terminates. It is used only if no endpoint of the service is ready.
    pub(crate) is_last_resort: bool,
}

/// Event of a watch.
#[derive(Debug)]
pub(crate) enum Event {
    /// A slice is new or has changed.
    Changed(String, SliceKey, EndpointSlice),
    /// A slice has been removed.
    Removed(String, SliceKey),
    /// Everything up to this version has been sent.
    Bookmark(String),
    /// The version is too old: the list must be read again.
    Gone,
    /// The slice cannot be used; the known one is kept.
    Unusable(String, IgnoredInstances),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawSlice {
    metadata: ObjectMeta,
    #[serde(default)]
    address_type: String,
    endpoints: Option<Vec<Value>>,
    ports: Option<Vec<RawPort>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ObjectMeta {
    name: String,
    #[serde(default)]
    namespace: String,
    labels: Option<BTreeMap<String, String>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawEndpoint {
    addresses: Vec<String>,
    conditions: Option<Conditions>,
    zone: Option<String>,
}

#[derive(Clone, Copy, Default, Deserialize)]
struct Conditions {
    ready: Option<bool>,
    serving: Option<bool>,
    terminating: Option<bool>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawPort {
    name: Option<String>,
    port: Option<i64>,
    protocol: Option<String>,
    app_protocol: Option<String>,
}

/// Reads a page of a list.
///
/// # Errors
/// It is no list, it has no version, or none of its slices can be used.
pub(crate) fn page(body: &[u8], settings: &Kubernetes) -> Result<Page, ReadError> {
    let mut list: Value = serde_json::from_slice(body)?;
    let metadata = |key: &str| list["metadata"][key].as_str().filter(|text| !text.is_empty()).map(str::to_owned);
    let version = metadata("resourceVersion").ok_or(ReadError::Missing("resource version"))?;
    let next = metadata("continue");
    let items = match list.get_mut("items").map(Value::take) {
        Some(Value::Array(items)) => items,
        None | Some(Value::Null) => Vec::new(),
        Some(_) => return Err(ReadError::Missing("list of EndpointSlices")),
    };
    let count = items.len();
    let (mut slices, mut ignored) = (Vec::with_capacity(count), Vec::new());
    for item in items {
        match slice(item, settings) {
            Ok(slice) => slices.push(slice),
            Err(problem) => ignored.push(*problem),
        }
    }
    if count > 0 && slices.is_empty() {
        return Err(ReadError::NoSlice(count));
    }
    Ok(Page { version, next, slices, ignored })
}
/// Reads an event of a watch.
///
/// # Errors
/// It is no event, or reports an error other than 410.
pub(crate) fn event(line: &[u8], settings: &Kubernetes) -> Result<Event, ReadError> {
    let mut event: Value = serde_json::from_slice(line)?;
    let object = event.get_mut("object").map(Value::take).unwrap_or_default();
    let version = object["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned();
    let refused = |problem: Refused| Event::Unusable(problem.0, problem.1);
    match event["type"].as_str().unwrap_or_default() {
        "ERROR" => {
            let code = object["code"].as_u64().and_then(|code| u16::try_from(code).ok()).unwrap_or_default();
            let message = object["message"].as_str().unwrap_or_default();
            let message = message.chars().filter(|c| !c.is_control()).take(200).collect();
            if code == 410 { Ok(Event::Gone) } else { Err(ReadError::Reported { code, message }) }
        }
        _ if version.is_empty() => Err(ReadError::Missing("resource version")),
        "BOOKMARK" => Ok(Event::Bookmark(version)),
        "DELETED" => Ok(match serde_json::from_value::<ObjectMeta>(object["metadata"].clone()) {
            Ok(meta) => Event::Removed(version, (meta.namespace, meta.name)),
            Err(_) => refused(unusable(&object["metadata"], Unusable::Shape)),
        }),
        "ADDED" | "MODIFIED" => Ok(match slice(object, settings) {
            Ok((key, slice)) => Event::Changed(version, key, slice),
            Err(problem) => refused(problem),
        }),
        // An unknown kind of event changes nothing here.
        _ => Ok(Event::Bookmark(version)),
    }
}

/// EndpointSlice that cannot be used: namespace and name, and the reason.
type Refused = Box<(String, IgnoredInstances)>;

/// Returns the ignored slice with this metadata.
fn unusable(metadata: &Value, reason: Unusable) -> Refused {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let name = format!("{}/{}", text(&metadata["namespace"]), text(&metadata["name"]));
    let service = text(&metadata["labels"][SERVICE_NAME]);
    let ignored = IgnoredInstances::one(&service, &name, reason);
    Box::new((name, ignored))
}

/// Reads a slice. Endpoints that cannot be used are left out, unless all are: then the slice cannot be used.
fn slice(value: Value, settings: &Kubernetes) -> Result<(SliceKey, EndpointSlice), Refused> {
    let metadata = value["metadata"].clone();
    let raw: RawSlice = serde_json::from_value(value).map_err(|_| unusable(&metadata, Unusable::Shape))?;
    let labels = raw.metadata.labels.unwrap_or_default();
    let service = labels.get(SERVICE_NAME).cloned().unwrap_or_default();
    let mut endpoints = Vec::new();
    let listed = raw.endpoints.unwrap_or_default();
    let mut ignored = None;
    if let Some((port, is_secure)) = port(&raw.ports.unwrap_or_default(), &labels, settings) {
        for endpoint in listed.into_iter().take(MAX_ENDPOINTS) {
            let name = endpoint["addresses"][0].as_str().unwrap_or_default().to_owned();
            let read = serde_json::from_value(endpoint).map_err(|_| Unusable::Shape);
            match read.and_then(|endpoint| usable(endpoint, port, is_secure, &labels)) {
                Ok(endpoint) => endpoints.push(endpoint),
                Err(reason) => IgnoredInstances::add(&mut ignored, &service, &name, reason),
            }
        }
    }
    match ignored {
        Some(ignored) if endpoints.is_empty() => {
            Err(Box::new((format!("{}/{}", raw.metadata.namespace, raw.metadata.name), ignored)))
        }
        ignored => {
            let is_ipv4 = raw.address_type.eq_ignore_ascii_case("IPv4");
            Ok(((raw.metadata.namespace, raw.metadata.name), EndpointSlice { service, is_ipv4, endpoints, ignored }))
        }
    }
}

/// Returns the port that requests go to, and true for `https`. `None` if the service has no TCP port.
fn port(ports: &[RawPort], labels: &BTreeMap<String, String>, settings: &Kubernetes) -> Option<(i64, bool)> {
    let is_tcp = |port: &&RawPort| port.protocol.as_deref().is_none_or(|protocol| protocol == "TCP");
    let tcp = || ports.iter().filter(is_tcp).filter(|port| port.port.is_some());
    let by_name = |name: &str| tcp().find(|port| port.name.as_deref() == Some(name));
    let discovery = &settings.discovery;
    let configured = labels.get(PRIMARY_PORT).map(String::as_str).or(discovery.primary_port_name.get());
    let chosen = configured
        .and_then(by_name)
        .or_else(|| by_name("https"))
        .or_else(|| by_name("http"))
        .or_else(|| tcp().next())?;
    let number = chosen.port?;
    let is_secure = chosen.app_protocol.as_deref().is_some_and(|protocol| protocol.eq_ignore_ascii_case("https"))
        || labels.get(SECURED).is_some_and(|secured| secured == "true")
        || u16::try_from(number).is_ok_and(|number| discovery.is_secure(number));
    Some((number, is_secure))
}

fn usable(
    endpoint: RawEndpoint,
    port: i64,
    is_secure: bool,
    labels: &BTreeMap<String, String>,
) -> Result<SliceEndpoint, Unusable> {
    // All addresses of an endpoint are the same pod.
    let host = endpoint.addresses.first().ok_or(Unusable::Host)?;
    let Conditions { ready, serving, terminating } = endpoint.conditions.unwrap_or_default();
    let zone =
        endpoint.zone.filter(|zone| !zone.is_empty() && zone.len() <= 253 && !zone.chars().any(char::is_control));
    let metadata = labels.iter().map(|(name, value)| (name.clone(), value.clone()));
    let mut instance = Instance::new(host, port, is_secure)?.metadata(metadata, "zone");
    instance.zone = zone.or(instance.zone);
    Ok(SliceEndpoint {
        instance,
        is_ready: ready.unwrap_or(true),
        is_last_resort: serving == Some(true) && terminating == Some(true),
    })
}

#[cfg(test)]
mod tests;
