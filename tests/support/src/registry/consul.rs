//! Stand-in for a Consul agent: registration, TTL checks, blocking queries, ACL tokens.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::http::{Fault, Response, Shared};
use super::request::Request;

/// Stand-in for a Consul agent.
pub struct ConsulServer {
    /// Listening address.
    pub address: SocketAddr,
    shared: Arc<Shared<Catalog>>,
}

#[derive(Default)]
struct Catalog {
    index: u64,
    /// Instances of each service by id.
    services: BTreeMap<String, BTreeMap<String, Service>>,
    /// Name of the service of each instance.
    names: BTreeMap<String, String>,
    /// Index of the last change of each service, also of one without instances.
    changed: BTreeMap<String, u64>,
    token: Option<String>,
}

/// Instance of a service.
struct Service {
    definition: Value,
    status: String,
}

impl ConsulServer {
    /// Starts an agent without services.
    pub fn start() -> Self {
        let catalog = Catalog { index: 1, ..Catalog::default() };
        let (shared, address) = Shared::start(catalog, answer);
        Self { address, shared }
    }

    /// Requires this token.
    pub fn require(&self, token: &str) {
        self.shared.change(|catalog| catalog.token = Some(token.to_owned()));
    }

    /// Registers an instance with a passing check. `more` are further fields of its definition.
    pub fn register(&self, name: &str, id: &str, address: SocketAddr, more: Value) {
        let mut definition =
            json!({"Name": name, "ID": id, "Address": address.ip().to_string(), "Port": address.port()});
        for (key, value) in more.as_object().into_iter().flatten() {
            definition[key] = value.clone();
        }
        self.shared.change_topics(|catalog| catalog.register(definition, "passing"));
    }

    /// Removes an instance.
    pub fn deregister(&self, id: &str) {
        self.shared.change_topics(|catalog| catalog.remove(id));
    }

    /// Sets the status of an instance's check: `passing`, `warning` or `critical`.
    pub fn check(&self, id: &str, status: &str) {
        self.shared.change_topics(|catalog| catalog.check(id, status));
    }

    /// Forgets everything. The index starts again, as after a restart without data.
    pub fn lose_data(&self) {
        self.shared.change(|catalog| *catalog = Catalog { index: 1, ..Catalog::default() });
        self.shared.fault(None);
    }

    /// Begins or ends a fault.
    pub fn fault(&self, fault: Option<Fault>) {
        self.shared.fault(fault);
    }

    /// Requests received.
    pub fn requests(&self) -> Vec<Request> {
        self.shared.lock().requests.clone()
    }

    /// Definitions of the registered instances by id.
    pub fn registered(&self) -> BTreeMap<String, Value> {
        let inner = self.shared.lock();
        let instances = inner.state.services.values().flatten();
        instances.map(|(id, service)| (id.clone(), service.definition.clone())).collect()
    }
}

impl Catalog {
    /// Notes a change of a service. Returns the topics that it concerns: the service, and the names of all.
    fn note(&mut self, name: &str) -> Vec<String> {
        self.index += 1;
        self.changed.insert(name.to_owned(), self.index);
        vec![name.to_owned(), String::new()]
    }

    /// Registers an instance. Keys of its definition may have any case, as in Consul.
    fn register(&mut self, definition: Value, status: &str) -> Vec<String> {
        let known = ["Name", "ID", "Address", "Port", "Tags", "Meta", "Weights"];
        let mut fields = json!({});
        for (key, value) in definition.as_object().into_iter().flatten() {
            let key = known.iter().find(|known| known.eq_ignore_ascii_case(key)).map_or(key.as_str(), |known| known);
            fields[key] = value.clone();
        }
        let definition = fields;
        let name = definition["Name"].as_str().unwrap_or_default().to_owned();
        let id = definition["ID"].as_str().unwrap_or(&name).to_owned();
        let topics = self.note(&name);
        self.services
            .entry(name.clone())
            .or_default()
            .insert(id.clone(), Service { definition, status: status.to_owned() });
        self.names.insert(id, name);
        topics
    }

    fn remove(&mut self, id: &str) -> Vec<String> {
        let Some(name) = self.names.remove(id) else { return Vec::new() };
        if let Some(instances) = self.services.get_mut(&name) {
            instances.remove(id);
        }
        self.note(&name)
    }

    fn check(&mut self, id: &str, status: &str) -> Vec<String> {
        let Some(name) = self.names.get(id).cloned() else { return Vec::new() };
        if let Some(service) = self.services.get_mut(&name).and_then(|instances| instances.get_mut(id)) {
            service.status = status.to_owned();
        }
        self.note(&name)
    }

    fn index_of(&self, name: &str) -> u64 {
        self.changed.get(name).copied().unwrap_or(self.index)
    }

    fn instances(&self, name: &str, request: &Request) -> Value {
        let fits = |service: &&Service| {
            let tags = service.definition["Tags"].as_array();
            let has = |tag: &str| tags.is_some_and(|tags| tags.iter().any(|known| known == tag));
            request.parameter("tag").is_none_or(has)
                && (request.parameter("passing").is_none() || service.status == "passing")
        };
        let found = self.services.get(name).into_iter().flatten().filter(|(_, service)| fits(service)).map(|(id, service)| {
            let given = &service.definition;
            let or = |key: &str, default: Value| if given[key].is_null() { default } else { given[key].clone() };
            json!({
                "Node": {"ID": "40e4a748-2192-161a-0510-9bf59fe950b5", "Node": "t2.320", "Address": "127.0.0.1",
                         "Datacenter": request.parameter("dc").unwrap_or("dc1"), "Meta": {}},
                "Service": {"ID": id, "Service": name, "Tags": or("Tags", json!([])), "Address": or("Address", json!("")),
                            "Meta": or("Meta", json!({})), "Port": given["Port"],
                            "Weights": or("Weights", json!({"Passing": 1, "Warning": 1})), "EnableTagOverride": false},
                "Checks": [{"Node": "t2.320", "CheckID": "serfHealth", "Name": "Serf Health Status", "Status": "passing"},
                           {"Node": "t2.320", "CheckID": format!("service:{id}"), "Status": service.status}],
            })
        });
        found.collect()
    }
}

fn answer(shared: &Shared<Catalog>, request: &Request) -> Response {
    let token = shared.lock().state.token.clone();
    let bearer = request.header("authorization").and_then(|value| value.strip_prefix("Bearer "));
    if token.as_deref().is_some_and(|token| request.header("x-consul-token").or(bearer) != Some(token)) {
        return Response::text(403, "Permission denied");
    }
    let path: Vec<&str> = request.path.trim_matches('/').split('/').collect();
    match (request.method.as_str(), path.as_slice()) {
        ("PUT", ["v1", "agent", "service", "register"]) => {
            let definition = request.json();
            // A check by TTL is critical until it is passed.
            let has_ttl = String::from_utf8_lossy(&request.body).to_ascii_lowercase().contains("\"ttl\"");
            let status = if has_ttl { "critical" } else { "passing" };
            shared.change_topics(|catalog| catalog.register(definition, status));
            Response::status(200)
        }
        ("PUT", ["v1", "agent", "service", "deregister", id]) => {
            shared.change_topics(|catalog| catalog.remove(id));
            Response::status(200)
        }
        ("PUT", ["v1", "agent", "check", verb, check]) => {
            let status = match *verb {
                "pass" => "passing",
                "warn" => "warning",
                _ => "critical",
            };
            let id = check.strip_prefix("service:").unwrap_or(check);
            if !shared.lock().state.names.contains_key(id) {
                return Response::text(404, "Unknown check ID");
            }
            shared.change_topics(|catalog| catalog.check(id, status));
            Response::status(200)
        }
        ("GET", ["v1", "health", "service", name]) => {
            let name = (*name).to_owned();
            blocking(
                shared,
                request,
                &name,
                |catalog| catalog.index_of(&name),
                |catalog| catalog.instances(&name, request),
            )
        }
        ("GET", ["v1", "catalog", "services"]) => blocking(
            shared,
            request,
            "",
            |catalog| catalog.index,
            |catalog| {
                let names = catalog.names.values().map(|name| (name.clone(), json!([])));
                Value::Object(names.chain([("consul".to_owned(), json!([]))]).collect())
            },
        ),
        _ => Response::text(404, "not found"),
    }
}

/// Answers a blocking query: at once without an index, otherwise when the index has grown or `wait` has passed.
fn blocking(
    shared: &Shared<Catalog>,
    request: &Request,
    topic: &str,
    index_of: impl Fn(&Catalog) -> u64,
    body: impl Fn(&Catalog) -> Value,
) -> Response {
    let index: u64 = request.parameter("index").and_then(|index| index.parse().ok()).unwrap_or(0);
    let wait = request.parameter("wait").and_then(|wait| wait.strip_suffix("ms")?.parse().ok()).unwrap_or(300_000);
    if index > 0 {
        shared.wait_for(topic, Duration::from_millis(wait), |catalog| index_of(catalog) != index);
    }
    let inner = shared.lock();
    Response::json(&body(&inner.state)).header("X-Consul-Index", index_of(&inner.state).to_string())
}
