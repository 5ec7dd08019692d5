//! Registration in Consul: a service with a check by TTL, at the agent.

use http::Method;
use serde_json::json;

use crate::client::encoded;
use crate::registration::{RegistrationEntry, Step};

/// Returns method, target and body of a request.
pub(super) fn request(entry: &RegistrationEntry, step: Step) -> (Method, String, String) {
    let id = encoded(&entry.id);
    let (target, body) = match step {
        Step::Register => ("/v1/agent/service/register".to_owned(), registration(entry)),
        Step::Renew => (format!("/v1/agent/check/pass/service:{id}"), String::new()),
        Step::Leave => (format!("/v1/agent/service/deregister/{id}"), String::new()),
    };
    (Method::PUT, target, body)
}

fn registration(entry: &RegistrationEntry) -> String {
    let mut metadata = entry.settings.metadata.clone();
    metadata.insert("secure".to_owned(), entry.is_secure.to_string());
    let registration = json!({
        "ID": entry.id,
        "Name": entry.settings.name,
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
