//! Registration in Consul: a service with a check by TTL, at the agent.

use http::{HeaderName, HeaderValue, Method, StatusCode};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};

use crate::client::{Call, ClientError, HttpClient, Reply};
use crate::registration::{Entry, RegisterError, TIMEOUT};
use tollgate_config::Consul;

const TOKEN: HeaderName = HeaderName::from_static("x-consul-token");

#[derive(Debug)]
pub(super) struct ConsulRegistrar {
    client: HttpClient,
    headers: Vec<(HeaderName, HeaderValue)>,
}

impl ConsulRegistrar {
    pub(super) fn new(settings: &Consul) -> Self {
        let token = settings.token.as_ref().and_then(|token| HeaderValue::from_str(&token.0).ok());
        let headers = token.map(|token| (TOKEN, token)).into_iter().collect();
        Self { client: HttpClient::new(&settings.server, &settings.tls), headers }
    }

    pub(super) async fn register(&self, entry: &Entry) -> Result<(), RegisterError> {
        let mut metadata = entry.settings.metadata.clone();
        metadata.insert("secure".to_owned(), entry.is_secure.to_string());
        let body = json!({
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
        self.put("/v1/agent/service/register", Some(&body)).await?.ok()?;
        // A check by TTL is critical until its first heartbeat.
        self.renew(entry).await.map(|_| ())
    }

    pub(super) async fn renew(&self, entry: &Entry) -> Result<bool, RegisterError> {
        let reply = self.put(&format!("/v1/agent/check/pass/service:{}", encoded(&entry.id)), None).await?;
        // Agents before 1.11 answer 500 for an unknown check.
        if [StatusCode::NOT_FOUND, StatusCode::INTERNAL_SERVER_ERROR].contains(&reply.status) {
            return Ok(false);
        }
        reply.ok()?;
        Ok(true)
    }

    pub(super) async fn leave(&self, entry: &Entry) -> Result<(), RegisterError> {
        let reply = self.put(&format!("/v1/agent/service/deregister/{}", encoded(&entry.id)), None).await?;
        if reply.status == StatusCode::NOT_FOUND {
            return Ok(());
        }
        reply.ok()?;
        Ok(())
    }

    async fn put(&self, target: &str, body: Option<&Value>) -> Result<Reply, ClientError> {
        let body = body.map_or_else(bytes::Bytes::new, |body| body.to_string().into());
        let call =
            Call { method: Method::PUT, target, headers: &self.headers, body, timeout: TIMEOUT, may_repeat: true };
        self.client.send(&call).await
    }
}

fn encoded(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}
