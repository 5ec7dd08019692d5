//! Stand-in for a Nacos server: registration, beats, login, the HTTP API of 1.x and 2.x, or of 3.x.

use std::net::SocketAddr;
use std::sync::Arc;

use serde_json::{Value, json};

use super::http::{Fault, Response, Shared};
use super::request::Request;

/// Stand-in for a Nacos server.
pub struct NacosServer {
    /// Listening address.
    pub address: SocketAddr,
    shared: Arc<Shared<Naming>>,
}

#[derive(Default)]
struct Naming {
    is_v3: bool,
    instances: Vec<Registered>,
    login: Option<(String, String)>,
    tokens: u64,
}

/// Instance with the name of its service.
struct Registered {
    namespace: String,
    group: String,
    service: String,
    host: Value,
}

impl NacosServer {
    /// Starts a server with the API of 1.x and 2.x.
    pub fn start() -> Self {
        let (shared, address) = Shared::start(Naming::default(), answer);
        Self { address, shared }
    }

    /// Starts a server with the API of 3.x only.
    pub fn start_v3() -> Self {
        let (shared, address) = Shared::start(Naming { is_v3: true, ..Naming::default() }, answer);
        Self { address, shared }
    }

    /// Requires a login.
    pub fn require(&self, username: &str, password: &str) {
        self.shared.change(|naming| naming.login = Some((username.to_owned(), password.to_owned())));
    }

    /// Revokes all tokens.
    pub fn revoke_tokens(&self) {
        self.shared.change(|naming| naming.tokens += 1);
    }

    /// Registers an instance. `place` is its namespace, group and service; `more` are further fields.
    pub fn register(&self, place: (&str, &str, &str), address: SocketAddr, more: Value) {
        let mut host = json!({"ip": address.ip().to_string(), "port": address.port(), "weight": 1.0, "healthy": true,
                              "enabled": true, "ephemeral": true, "clusterName": "DEFAULT", "metadata": {}});
        for (key, value) in more.as_object().into_iter().flatten() {
            host[key] = value.clone();
        }
        let (namespace, group, service) = (place.0.to_owned(), place.1.to_owned(), place.2.to_owned());
        self.shared.change(|naming| naming.put(Registered { namespace, group, service, host }));
    }

    /// Removes the instances at `address`.
    pub fn deregister(&self, address: SocketAddr) {
        self.shared.change(|naming| naming.instances.retain(|one| one.host["port"] != address.port()));
    }

    /// Begins or ends a fault.
    pub fn fault(&self, fault: Option<Fault>) {
        self.shared.fault(fault);
    }

    /// Requests received.
    pub fn requests(&self) -> Vec<Request> {
        self.shared.lock().requests.clone()
    }

    /// Registered instances: service and fields.
    pub fn registered(&self) -> Vec<(String, Value)> {
        self.shared.lock().state.instances.iter().map(|one| (one.service.clone(), one.host.clone())).collect()
    }
}

impl Naming {
    fn put(&mut self, new: Registered) {
        self.remove(&new);
        self.instances.push(new);
    }

    fn remove(&mut self, other: &Registered) -> bool {
        let before = self.instances.len();
        self.instances.retain(|one| {
            (&one.namespace, &one.group, &one.service) != (&other.namespace, &other.group, &other.service)
                || (&one.host["ip"], &one.host["port"]) != (&other.host["ip"], &other.host["port"])
        });
        self.instances.len() < before
    }

    /// Takes a beat. An unknown instance is registered if the beat has the whole of it; returns false if it has not.
    fn beat(&mut self, request: &Request) -> bool {
        let mut new = named(request);
        let is_known = |one: &Registered| {
            (&one.namespace, &one.group, &one.service) == (&new.namespace, &new.group, &new.service)
                && (&one.host["ip"], &one.host["port"]) == (&new.host["ip"], &new.host["port"])
        };
        if self.instances.iter().any(is_known) {
            return true;
        }
        let Some(beat) = request.parameter("beat").and_then(|text| serde_json::from_str::<Value>(text).ok()) else {
            return false;
        };
        for name in ["ip", "port", "weight", "metadata"] {
            new.host[name] = beat[name].clone();
        }
        new.host["clusterName"] = beat["cluster"].clone();
        self.put(new);
        true
    }

    fn token(&self) -> String {
        format!("token-{}", self.tokens)
    }
}

/// Returns the instance that a request names.
fn named(request: &Request) -> Registered {
    let text = |name: &str| request.parameter(name).unwrap_or_default().to_owned();
    let or = |name: &str, default: &str| {
        request.parameter(name).filter(|text| !text.is_empty()).unwrap_or(default).to_owned()
    };
    let service = text("serviceName");
    let (group, service) = match service.split_once("@@") {
        Some((group, service)) => (group.to_owned(), service.to_owned()),
        None => (or("groupName", "DEFAULT_GROUP"), service),
    };
    let flag = |name: &str| or(name, "true").eq_ignore_ascii_case("true");
    let metadata: Value = serde_json::from_str(&text("metadata")).unwrap_or_else(|_| json!({}));
    let host = json!({
        "ip": text("ip"), "port": text("port").parse::<u16>().unwrap_or(0), "weight": or("weight", "1").parse::<f64>().unwrap_or(1.0),
        "healthy": flag("healthy"), "enabled": flag("enabled") && flag("enable"), "ephemeral": flag("ephemeral"),
        "clusterName": or("clusterName", "DEFAULT"), "metadata": metadata,
    });
    let namespace = text("namespaceId");
    Registered { namespace: if namespace == "public" { String::new() } else { namespace }, group, service, host }
}

fn answer(shared: &Shared<Naming>, request: &Request) -> Response {
    let (is_v3, login, token) = {
        let state = &shared.lock().state;
        (state.is_v3, state.login.clone(), state.token())
    };
    let path = request.path.as_str();
    let is_login = path == if is_v3 { "/nacos/v3/auth/user/login" } else { "/nacos/v1/auth/login" };
    if (is_login || path == "/nacos/v1/auth/users/login" && !is_v3) && request.method == "POST" {
        let given =
            (request.parameter("username").unwrap_or_default(), request.parameter("password").unwrap_or_default());
        return match &login {
            Some((username, password)) if given != (username.as_str(), password.as_str()) => {
                Response::text(403, "unknown user!")
            }
            _ => Response::json(&json!({"accessToken": token, "tokenTtl": 18_000, "globalAdmin": true})),
        };
    }
    let base = if is_v3 { "/nacos/v3/client/ns/instance" } else { "/nacos/v1/ns/instance" };
    let is_list = path == if is_v3 { "/nacos/v3/admin/ns/service/list" } else { "/nacos/v1/ns/service/list" };
    let rest = path.strip_prefix(base);
    if rest.is_none() && !is_list {
        return Response::text(404, "No endpoint");
    }
    if login.is_some() && request.parameter("accessToken") != Some(&token) {
        return Response::text(403, "unauthorized");
    }
    let Some(rest) = rest else { return names(shared, request, is_v3) };
    let done = |is_done: bool| match (is_v3, is_done) {
        (true, _) => Response::json(&json!({"code": 0, "message": "success", "data": "ok"})),
        (false, true) => Response::text(200, "ok"),
        (false, false) => Response::text(500, "not found"),
    };
    match (request.method.as_str(), rest) {
        ("GET", "/list") => list(shared, request, is_v3),
        ("POST", "") => {
            shared.change(|naming| naming.put(named(request)));
            done(true)
        }
        ("DELETE", "") => done(shared.change(|naming| naming.remove(&named(request))) || is_v3),
        ("PUT", "/beat") => {
            let code = if shared.change(|naming| naming.beat(request)) { 10_200 } else { 20_404 };
            Response::json(&json!({"clientBeatInterval": 5000, "code": code, "lightBeatEnabled": true}))
        }
        _ => Response::text(404, "No endpoint"),
    }
}

/// Answers with one page of the names of services.
fn names(shared: &Shared<Naming>, request: &Request, is_v3: bool) -> Response {
    let number = |name: &str| request.parameter(name).and_then(|text| text.parse().ok()).unwrap_or(1_usize);
    let mut names: Vec<String> = shared.lock().state.instances.iter().map(|one| one.service.clone()).collect();
    names.sort();
    names.dedup();
    let (count, size) = (names.len(), number("pageSize"));
    let page: Vec<_> = names.into_iter().skip((number("pageNo") - 1) * size).take(size).collect();
    Response::json(&if is_v3 {
        let items: Vec<_> =
            page.iter().map(|name| json!({"name": name, "groupName": "DEFAULT_GROUP", "ipCount": 1})).collect();
        json!({"code": 0, "message": "success", "data": {"totalCount": count, "pageNumber": 1, "pagesAvailable": 1, "pageItems": items}})
    } else {
        json!({"count": count, "doms": page})
    })
}

fn list(shared: &Shared<Naming>, request: &Request, is_v3: bool) -> Response {
    let wanted = named(request);
    let clusters = request.parameter(if is_v3 { "clusterName" } else { "clusters" }).unwrap_or_default();
    let state = &shared.lock().state;
    let found = state.instances.iter().filter(|one| {
        (&one.namespace, &one.group, &one.service) == (&wanted.namespace, &wanted.group, &wanted.service)
            && (clusters.is_empty() || clusters.split(',').any(|cluster| one.host["clusterName"] == cluster))
    });
    let full = format!("{}@@{}", wanted.group, wanted.service);
    let hosts: Vec<Value> = found
        .map(|one| {
            let mut host = one.host.clone();
            host["serviceName"] = json!(full);
            host["instanceId"] =
                json!(format!("{}#{}#{}#{full}", host["ip"], host["port"], host["clusterName"]).replace('"', ""));
            host["instanceHeartBeatInterval"] = json!(5000);
            host
        })
        .collect();
    Response::json(&if is_v3 {
        json!({"code": 0, "message": "success", "data": hosts})
    } else {
        json!({"name": full, "groupName": wanted.group, "clusters": clusters, "cacheMillis": 10_000, "hosts": hosts,
               "lastRefTime": 1_600_000_000_000_u64, "checksum": "", "allIPs": false, "reachProtectionThreshold": false, "valid": true})
    })
}
