//! Registration in Consul: a service with a check by TTL, at the agent.

use http::{HeaderName, HeaderValue, Method, StatusCode};
use serde_json::json;

use crate::client::{Call, ClientError, HttpClient, Reply, encoded};
use crate::consul::token;
use crate::registration::{Entry, Step, TIMEOUT};
use tollgate_config::Consul;

#[derive(Debug)]
pub(super) struct ConsulRegistrar {
    client: HttpClient,
    headers: Vec<(HeaderName, HeaderValue)>,
}

impl ConsulRegistrar {
    pub(super) fn new(settings: &Consul) -> Self {
        Self { client: HttpClient::new(&settings.server, &settings.tls), headers: token(settings) }
    }

    pub(super) async fn send(&self, entry: &Entry, step: Step) -> Result<Reply, ClientError> {
        let id = encoded(&entry.id);
        let (target, body) = match step {
            Step::Register => ("/v1/agent/service/register".to_owned(), registration(entry)),
            Step::Renew => (format!("/v1/agent/check/pass/service:{id}"), String::new()),
            Step::Leave => (format!("/v1/agent/service/deregister/{id}"), String::new()),
        };
        let call = Call::new(Method::PUT, &target, TIMEOUT).headers(&self.headers).body(body);
        let mut reply = self.client.send(&call).await?;
        // Agents before 1.11 answer 500 for an unknown check.
        if step == Step::Renew && reply.status == StatusCode::INTERNAL_SERVER_ERROR {
            reply.status = StatusCode::NOT_FOUND;
        }
        Ok(reply)
    }
}

fn registration(entry: &Entry) -> String {
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
