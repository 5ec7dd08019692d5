//! Requests that register the gateway: in Eureka a lease, in Consul a service with a check by TTL, and in Nacos an ephemeral
//! instance over HTTP, kept by beats.

use std::collections::BTreeMap;

use http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::client::{RegistryError, Reply, encoded};
use crate::nacos::{ApiEndpoint, ApiRequest, NacosClient};
use crate::registration::{RegistrationEntry, Step};

/// Returns method, target and body of a request to Eureka.
pub(super) fn eureka(entry: &RegistrationEntry, step: Step) -> (Method, String, String) {
    let (name, id) = (encoded(&entry.settings.name.as_str().to_uppercase()), encoded(&entry.id));
    match step {
        Step::Register => (Method::POST, format!("/apps/{name}"), eureka_instance(entry)),
        Step::Renew => (Method::PUT, format!("/apps/{name}/{id}?status=UP"), String::new()),
        Step::Leave => (Method::DELETE, format!("/apps/{name}/{id}"), String::new()),
    }
}

fn eureka_instance(entry: &RegistrationEntry) -> String {
    let settings = &entry.settings;
    let (scheme, port) = (if entry.is_secure { "https" } else { "http" }, entry.port);
    let base = format!("{scheme}://{}:{port}", entry.host);
    let of_port = |is_on: bool| json!({"$": if is_on { port } else { 0 }, "@enabled": is_on.to_string()});
    let mut metadata = settings.metadata.clone();
    let management = settings.management_port.unwrap_or(port);
    metadata.entry("management.port".to_owned()).or_insert_with(|| management.to_string());
    let management_base = format!("{}://{}:{management}", if management == port { scheme } else { "http" }, entry.host);
    let [home, status, health] = &settings.paths;
    let instance = json!({"instance": {
        "instanceId": entry.id,
        "hostName": entry.host,
        "app": settings.name.as_str().to_uppercase(),
        "ipAddr": entry.host,
        "status": "UP",
        "overriddenStatus": "UNKNOWN",
        "port": of_port(!entry.is_secure),
        "securePort": of_port(entry.is_secure),
        "countryId": 1,
        "dataCenterInfo": {"@class": "com.netflix.appinfo.InstanceInfo$DefaultDataCenterInfo", "name": "MyOwn"},
        "leaseInfo": {
            "renewalIntervalInSecs": settings.heartbeat.as_secs().max(1),
            "durationInSecs": settings.lease.as_secs().max(2),
        },
        "metadata": metadata,
        "homePageUrl": format!("{base}{home}"),
        "statusPageUrl": format!("{management_base}{status}"),
        "healthCheckUrl": format!("{management_base}{health}"),
        "vipAddress": settings.name.as_str(),
        "secureVipAddress": settings.name.as_str(),
        "isCoordinatingDiscoveryServer": "false",
    }});
    instance.to_string()
}

/// Returns method, target and body of a request to the agent of Consul: a service with a check by TTL.
pub(super) fn consul(entry: &RegistrationEntry, step: Step) -> (Method, String, String) {
    let id = encoded(&entry.id);
    let (target, body) = match step {
        Step::Register => ("/v1/agent/service/register".to_owned(), consul_service(entry)),
        Step::Renew => (format!("/v1/agent/check/pass/service:{id}"), String::new()),
        Step::Leave => (format!("/v1/agent/service/deregister/{id}"), String::new()),
    };
    (Method::PUT, target, body)
}

fn consul_service(entry: &RegistrationEntry) -> String {
    let mut metadata = entry.settings.metadata.clone();
    metadata.insert("secure".to_owned(), entry.is_secure.to_string());
    let registration = json!({
        "ID": entry.id,
        "Name": entry.settings.name.as_str(),
        "Address": entry.host,
        "Port": entry.port,
        "Tags": entry.settings.tags,
        "Meta": metadata,
        "Check": {
            "TTL": format!("{}s", entry.settings.lease.as_secs().max(1)),
            "DeregisterCriticalServiceAfter": "10m",
        },
    });
    registration.to_string()
}

/// Code of a beat for an instance that the server does not know.
const UNKNOWN_BEAT: i64 = 20_404;

/// Sends a request of the registration to Nacos.
pub(super) async fn nacos(client: &NacosClient, entry: &RegistrationEntry, step: Step) -> Result<Reply, RegistryError> {
    let (is_beat, is_v3) = (step == Step::Renew, client.is_v3());
    let (method, path) = match step {
        Step::Renew if !is_v3 => (Method::PUT, "/beat"),
        // In 3.x, a beat is a registration.
        Step::Register | Step::Renew => (Method::POST, ""),
        Step::Leave => (Method::DELETE, ""),
    };
    let settings = &entry.settings;
    let metadata = nacos_metadata(entry);
    // With the whole instance, a server that has forgotten it registers it as it was.
    let beat = json!({
        "serviceName": format!("{}@@{}", client.settings.discovery.group(), settings.name.as_str()), "ip": entry.host, "port": entry.port,
        "cluster": settings.cluster, "weight": settings.weight.parse::<f64>().unwrap_or(1.0), "metadata": metadata, "period": u64::try_from(settings.heartbeat.as_millis()).unwrap_or(u64::MAX),
        "scheduled": false, "stopped": false,
    });
    let beat = if is_beat { beat.to_string() } else { String::new() };
    let metadata = serde_json::to_string(&metadata).unwrap_or_default();
    let port = entry.port.to_string();
    let parameters = [
        ("serviceName", settings.name.as_str()),
        ("groupName", client.settings.discovery.group()),
        ("ip", entry.host.as_str()),
        ("port", port.as_str()),
        ("ephemeral", "true"),
        ("metadata", metadata.as_str()),
        ("weight", settings.weight.as_str()),
        ("clusterName", settings.cluster.as_str()),
    ];
    let (v3, v1) = (format!("/v3/client/ns/instance{path}"), format!("/v1/ns/instance{path}"));
    let with = |name, value| parameters.into_iter().chain([(name, value)]).collect::<Vec<_>>();
    let of_v3 = with("heartBeat", if is_beat { "true" } else { "" });
    let of_v1 = with("beat", &beat);
    let v3 = ApiEndpoint { path: &v3, parameters: &of_v3 };
    let v1 = ApiEndpoint { path: &v1, parameters: &of_v1 };
    let mut reply = client.request(&ApiRequest { method, v3, v1 }, Ok).await?;
    if is_beat && !is_v3 {
        let body: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
        if body["code"].as_i64() == Some(UNKNOWN_BEAT) {
            reply.status = StatusCode::NOT_FOUND;
        }
    }
    Ok(reply)
}

/// Returns the metadata of the instance, as Spring Cloud Alibaba registers it.
fn nacos_metadata(entry: &RegistrationEntry) -> BTreeMap<String, String> {
    let settings = &entry.settings;
    let mut metadata = settings.metadata.clone();
    metadata.insert("preserved.heart.beat.interval".to_owned(), settings.heartbeat.as_millis().to_string());
    metadata.insert("preserved.heart.beat.timeout".to_owned(), settings.lease.as_millis().to_string());
    metadata.insert("preserved.ip.delete.timeout".to_owned(), (settings.lease * 2).as_millis().to_string());
    metadata.entry("preserved.register.source".to_owned()).or_insert_with(|| "SPRING_CLOUD".to_owned());
    if let Some(port) = settings.management_port {
        metadata.entry("management.port".to_owned()).or_insert_with(|| port.to_string());
    }
    if entry.is_secure {
        metadata.insert("secure".to_owned(), "true".to_owned());
    }
    metadata
}
