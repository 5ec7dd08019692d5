//! Stand-in for a Eureka server: registration, leases, changes, basic authentication.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::http::{Fault, Response, Shared};
use super::request::Request;

/// Stand-in for a Eureka server.
pub struct EurekaServer {
    /// Listening address.
    pub address: SocketAddr,
    shared: Arc<Shared<Leases>>,
}

#[derive(Default)]
struct Leases {
    /// Leases by application and id of the instance.
    leases: BTreeMap<(String, String), Lease>,
    /// Changes of the last three minutes: action and instance.
    changes: Vec<(Instant, &'static str, Value)>,
    version: u64,
    /// Expected `Authorization`.
    authorization: Option<String>,
}

struct Lease {
    instance: Value,
    renewed: Instant,
    duration: Duration,
}

/// Time for which changes are kept.
const WINDOW: Duration = Duration::from_secs(180);

impl EurekaServer {
    /// Starts a server without instances.
    pub fn start() -> Self {
        let (shared, address) = Shared::start(Leases::default(), answer);
        Self { address, shared }
    }

    /// Returns its URL for `eureka.client.service-url.defaultZone`.
    pub fn url(&self) -> String {
        format!("http://{}/eureka/", self.address)
    }

    /// Requires this value of `Authorization`.
    pub fn require(&self, authorization: &str) {
        self.shared.change(|leases| leases.authorization = Some(authorization.to_owned()));
    }

    /// Registers an instance whose lease does not expire. `more` are further fields.
    pub fn register(&self, name: &str, id: &str, address: SocketAddr, more: Value) {
        let mut instance = json!({
            "instanceId": id, "hostName": address.ip().to_string(), "app": name.to_uppercase(),
            "ipAddr": address.ip().to_string(), "status": "UP", "port": {"$": address.port(), "@enabled": "true"},
            "securePort": {"$": 443, "@enabled": "false"}, "vipAddress": name, "secureVipAddress": name,
            "metadata": {"@class": "java.util.Collections$EmptyMap"}, "leaseInfo": {"durationInSecs": 86_400},
        });
        for (key, value) in more.as_object().into_iter().flatten() {
            instance[key] = value.clone();
        }
        self.shared.change(|leases| leases.register(&name.to_uppercase(), instance));
    }

    /// Removes an instance.
    pub fn cancel(&self, name: &str, id: &str) {
        self.shared.change(|leases| leases.cancel(&name.to_uppercase(), id));
    }

    /// Sets the status of an instance: `UP`, `DOWN` …
    pub fn set_status(&self, name: &str, id: &str, status: &str) {
        self.shared.change(|leases| leases.set_status(&name.to_uppercase(), id, status));
    }

    /// Forgets the recent changes, as a server that clients have not asked for long.
    pub fn forget_changes(&self) {
        self.shared.change(|leases| leases.changes.clear());
    }

    /// Forgets everything, as after a restart.
    pub fn lose_data(&self) {
        self.shared.change(|leases| *leases = Leases::default());
    }

    /// Begins or ends a fault.
    pub fn fault(&self, fault: Option<Fault>) {
        self.shared.fault(fault);
    }

    /// Requests received.
    pub fn requests(&self) -> Vec<Request> {
        self.shared.lock().requests.clone()
    }

    /// Instances by application and id.
    pub fn registered(&self) -> BTreeMap<(String, String), Value> {
        self.shared.change(Leases::evict);
        let inner = self.shared.lock();
        inner.state.leases.iter().map(|(key, lease)| (key.clone(), lease.instance.clone())).collect()
    }
}

impl Leases {
    fn note(&mut self, action: &'static str, instance: &Value) {
        self.version += 1;
        let mut instance = instance.clone();
        instance["actionType"] = json!(action);
        self.changes.push((Instant::now(), action, instance));
    }

    fn register(&mut self, application: &str, mut instance: Value) {
        let id = instance["instanceId"].as_str().or(instance["hostName"].as_str()).unwrap_or_default().to_owned();
        let seconds = &instance["leaseInfo"]["durationInSecs"];
        let seconds = seconds.as_f64().or_else(|| seconds.as_str()?.parse().ok()).unwrap_or(90.0);
        instance["actionType"] = json!("ADDED");
        instance["lastUpdatedTimestamp"] = json!("1600000000000");
        instance["isCoordinatingDiscoveryServer"] = json!("false");
        self.note("ADDED", &instance);
        let lease = Lease { instance, renewed: Instant::now(), duration: Duration::from_secs_f64(seconds) };
        self.leases.insert((application.to_owned(), id), lease);
    }

    fn cancel(&mut self, application: &str, id: &str) -> bool {
        let removed = self.leases.remove(&(application.to_owned(), id.to_owned()));
        if let Some(lease) = &removed {
            self.note("DELETED", &lease.instance);
        }
        removed.is_some()
    }

    fn renew(&mut self, application: &str, id: &str) -> bool {
        let lease = self.leases.get_mut(&(application.to_owned(), id.to_owned()));
        lease.map(|lease| lease.renewed = Instant::now()).is_some()
    }

    fn set_status(&mut self, application: &str, id: &str, status: &str) -> bool {
        let Some(lease) = self.leases.get_mut(&(application.to_owned(), id.to_owned())) else { return false };
        lease.instance["status"] = json!(status);
        let instance = lease.instance.clone();
        self.note("MODIFIED", &instance);
        true
    }

    /// Removes expired leases and old changes.
    fn evict(&mut self) {
        let expired: Vec<_> = self
            .leases
            .iter()
            .filter(|(_, lease)| lease.renewed.elapsed() > lease.duration)
            .map(|(key, _)| key.clone())
            .collect();
        for (application, id) in expired {
            self.cancel(&application, &id);
        }
        self.changes.retain(|(at, ..)| at.elapsed() < WINDOW);
    }

    fn hash(&self) -> String {
        let mut counts = BTreeMap::<&str, usize>::new();
        for lease in self.leases.values() {
            *counts.entry(lease.instance["status"].as_str().unwrap_or("UNKNOWN")).or_default() += 1;
        }
        counts.iter().map(|(status, count)| format!("{status}_{count}_")).collect()
    }

    fn applications<'l>(&self, instances: impl Iterator<Item = &'l Value>) -> Value {
        let mut by_name = BTreeMap::<&str, Vec<&Value>>::new();
        for instance in instances {
            by_name.entry(instance["app"].as_str().unwrap_or_default()).or_default().push(instance);
        }
        let list: Vec<_> = by_name
            .iter()
            .map(|(name, instances)| json!({"name": name.to_uppercase(), "instance": instances}))
            .collect();
        json!({"applications": {"versions__delta": self.version.to_string(), "apps__hashcode": self.hash(), "application": list}})
    }
}

fn answer(shared: &Shared<Leases>, request: &Request) -> Response {
    shared.change(Leases::evict);
    let wanted = shared.lock().state.authorization.clone();
    if wanted.is_some_and(|wanted| request.header("authorization") != Some(&wanted)) {
        return Response::status(401).header("WWW-Authenticate", "Basic realm=\"Realm\"".to_owned());
    }
    let path: Vec<&str> = request.path.trim_matches('/').split('/').collect();
    let found = |is_found: bool| Response::status(if is_found { 200 } else { 404 });
    match (request.method.as_str(), path.as_slice()) {
        ("GET", ["eureka", "apps"]) => {
            let state = &shared.lock().state;
            Response::json(&state.applications(state.leases.values().map(|lease| &lease.instance)))
        }
        ("GET", ["eureka", "apps", "delta"]) => {
            let state = &shared.lock().state;
            // Only the last change of an instance is sent.
            let mut last = BTreeMap::new();
            for (_, _, instance) in &state.changes {
                last.insert((instance["app"].to_string(), instance["instanceId"].to_string()), instance);
            }
            Response::json(&state.applications(last.into_values()))
        }
        ("POST", ["eureka", "apps", application]) => {
            let instance = request.json()["instance"].clone();
            if instance["hostName"].is_null() {
                return Response::text(400, "Missing hostname");
            }
            shared.change(|leases| leases.register(&application.to_uppercase(), instance));
            Response::status(204)
        }
        ("PUT", ["eureka", "apps", application, id]) => {
            found(shared.change(|leases| leases.renew(&application.to_uppercase(), id)))
        }
        ("DELETE", ["eureka", "apps", application, id]) => {
            found(shared.change(|leases| leases.cancel(&application.to_uppercase(), id)))
        }
        ("PUT", ["eureka", "apps", application, id, "status"]) => {
            let status = request.parameter("value").unwrap_or("UP").to_owned();
            found(shared.change(|leases| leases.set_status(&application.to_uppercase(), id, &status)))
        }
        _ => Response::status(404),
    }
}
