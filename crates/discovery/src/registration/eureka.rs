//! Registration in Eureka: a lease at the server that responds.

use std::cell::Cell;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Method, StatusCode};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::json;

use crate::client::{Call, ClientError, HttpClient, Reply};
use crate::registration::{Entry, RegisterError, TIMEOUT};
use tollgate_config::Eureka;

#[derive(Debug)]
pub(super) struct EurekaRegistrar {
    clients: Vec<HttpClient>,
    /// Server that responded last.
    current: Cell<usize>,
}

impl EurekaRegistrar {
    pub(super) fn new(settings: &Eureka) -> Self {
        let clients = settings.servers.iter().map(|server| HttpClient::new(server, &settings.tls)).collect();
        Self { clients, current: Cell::new(0) }
    }

    pub(super) async fn register(&self, entry: &Entry) -> Result<(), RegisterError> {
        let settings = &entry.settings;
        let (scheme, port) = (if entry.is_secure { "https" } else { "http" }, entry.port);
        let base = format!("{scheme}://{}:{port}", entry.host);
        let of_port = |is_on: bool| json!({"$": if is_on { port } else { 0 }, "@enabled": is_on.to_string()});
        let mut metadata = settings.metadata.clone();
        let management = settings.management_port.unwrap_or(port);
        metadata.entry("management.port".to_owned()).or_insert_with(|| management.to_string());
        let management_base =
            format!("{}://{}:{management}", if management == port { scheme } else { "http" }, entry.host);
        let [home, status, health] = &settings.paths;
        let body = json!({"instance": {
            "instanceId": entry.id,
            "hostName": entry.host,
            "app": settings.name.to_uppercase(),
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
            "vipAddress": settings.name,
            "secureVipAddress": settings.name,
            "isCoordinatingDiscoveryServer": "false",
        }});
        let target = format!("/apps/{}", application(entry));
        let reply = self.send(Method::POST, &target, body.to_string().into()).await?;
        if reply.status == StatusCode::NO_CONTENT { Ok(()) } else { reply.ok().map(drop).map_err(Into::into) }
    }

    pub(super) async fn renew(&self, entry: &Entry) -> Result<bool, RegisterError> {
        let reply = self.send(Method::PUT, &format!("{}?status=UP", target(entry)), Bytes::new()).await?;
        if reply.status == StatusCode::NOT_FOUND {
            return Ok(false);
        }
        reply.ok()?;
        Ok(true)
    }

    pub(super) async fn leave(&self, entry: &Entry) -> Result<(), RegisterError> {
        let reply = self.send(Method::DELETE, &target(entry), Bytes::new()).await?;
        if reply.status == StatusCode::NOT_FOUND { Ok(()) } else { reply.ok().map(drop).map_err(Into::into) }
    }

    /// Sends a request to the server that responded last, or to the next one.
    async fn send(&self, method: Method, target: &str, body: Bytes) -> Result<Reply, ClientError> {
        let headers = [(CONTENT_TYPE, HeaderValue::from_static("application/json"))];
        let mut last = None;
        for _ in 0..self.clients.len() {
            let (method, body) = (method.clone(), body.clone());
            let call = Call { method, target, headers: &headers, body, timeout: TIMEOUT, may_repeat: true };
            match self.clients[self.current.get()].send(&call).await {
                Ok(reply) if !reply.status.is_server_error() => return Ok(reply),
                Ok(reply) => last = Some(ClientError::Status(reply.status)),
                Err(error) => last = Some(error),
            }
            self.current.set((self.current.get() + 1) % self.clients.len());
        }
        Err(last.unwrap_or(ClientError::Status(StatusCode::SERVICE_UNAVAILABLE)))
    }
}

fn application(entry: &Entry) -> String {
    utf8_percent_encode(&entry.settings.name.to_uppercase(), NON_ALPHANUMERIC).to_string()
}

fn target(entry: &Entry) -> String {
    format!("/apps/{}/{}", application(entry), utf8_percent_encode(&entry.id, NON_ALPHANUMERIC))
}
