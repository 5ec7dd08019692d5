//! Registration in Eureka: a lease at the server that responds.

use std::cell::Cell;

use http::header::CONTENT_TYPE;
use http::{HeaderValue, Method, StatusCode};
use serde_json::json;

use crate::client::{Call, ClientError, HttpClient, Reply, encoded};
use crate::registration::{Entry, Step, TIMEOUT};
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

    pub(super) async fn send(&self, entry: &Entry, step: Step) -> Result<Reply, ClientError> {
        let (name, id) = (encoded(&entry.settings.name.to_uppercase()), encoded(&entry.id));
        match step {
            Step::Register => self.request(Method::POST, &format!("/apps/{name}"), instance(entry)).await,
            Step::Renew => self.request(Method::PUT, &format!("/apps/{name}/{id}?status=UP"), String::new()).await,
            Step::Leave => self.request(Method::DELETE, &format!("/apps/{name}/{id}"), String::new()).await,
        }
    }

    /// Sends a request to the server that responded last, or to the next one.
    async fn request(&self, method: Method, target: &str, body: String) -> Result<Reply, ClientError> {
        let headers = [(CONTENT_TYPE, HeaderValue::from_static("application/json"))];
        let mut last = None;
        for _ in 0..self.clients.len() {
            let call = Call::new(method.clone(), target, TIMEOUT).headers(&headers).body(body.clone());
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

fn instance(entry: &Entry) -> String {
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
    instance.to_string()
}
