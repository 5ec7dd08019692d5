//! Stand-in for the API server of Kubernetes: lists and watches of EndpointSlices (`discovery.k8s.io/v1`), by its published
//! API: pages, label selectors, resource versions, bookmarks, `410 Gone` and bearer tokens.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::http::{Fault, Response, Shared};
use super::request::Request;

/// Stand-in for the API server of Kubernetes.
pub struct KubernetesServer {
    /// Listening address.
    pub address: SocketAddr,
    shared: Arc<Shared<Cluster>>,
}

/// Endpoint of a slice.
#[derive(Clone, Debug)]
pub struct Pod {
    /// Its address.
    pub address: SocketAddr,
    /// Its conditions.
    pub conditions: Value,
    /// Its zone.
    pub zone: Option<&'static str>,
}

#[derive(Default)]
struct Cluster {
    version: u64,
    slices: BTreeMap<(String, String), Value>,
    /// Changes by version: type, namespace, object.
    log: Vec<(u64, &'static str, Value)>,
    /// Versions before this one are forgotten.
    oldest: u64,
    token: Option<String>,
}

impl Pod {
    /// Returns a pod that is ready.
    pub fn ready(address: SocketAddr) -> Self {
        Self { address, conditions: json!({"ready": true, "serving": true, "terminating": false}), zone: None }
    }
}

impl KubernetesServer {
    /// Starts a server without slices.
    pub fn start() -> Self {
        let cluster = Cluster { version: 100, oldest: 100, ..Cluster::default() };
        let (shared, address) = Shared::start(cluster, answer);
        Self { address, shared }
    }

    /// Requires this bearer token; watches in progress go on.
    pub fn require(&self, token: &str) {
        self.shared.change(|cluster| cluster.token = Some(token.to_owned()));
    }

    /// Adds or replaces a slice of `service`. All pods have the port of the first one. `more` are fields that replace those
    /// of the object.
    pub fn apply(&self, namespace: &str, service: &str, slice: &str, pods: &[Pod], more: Value) {
        let endpoints: Vec<Value> = pods
            .iter()
            .map(|pod| {
                json!({"addresses": [pod.address.ip().to_string()], "conditions": pod.conditions, "zone": pod.zone,
                       "nodeName": "node-1", "targetRef": {"kind": "Pod", "name": "p", "namespace": namespace}})
            })
            .collect();
        let port = pods.first().map_or(80, |pod| pod.address.port());
        let mut object = json!({
            "metadata": {"name": slice, "namespace": namespace, "uid": "f2c1", "generation": 1,
                         "labels": {"kubernetes.io/service-name": service,
                                    "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io"}},
            "addressType": "IPv4",
            "endpoints": endpoints,
            "ports": [{"name": "web", "port": port, "protocol": "TCP"}],
        });
        for (key, value) in more.as_object().into_iter().flatten() {
            match (object[key].as_object_mut(), value) {
                (Some(fields), Value::Object(more)) if key == "metadata" => {
                    for (name, value) in more {
                        match (fields.get_mut(name).and_then(Value::as_object_mut), value) {
                            (Some(known), Value::Object(more)) => known.extend(more.clone()),
                            _ => drop(fields.insert(name.clone(), value.clone())),
                        }
                    }
                }
                _ => object[key] = value.clone(),
            }
        }
        let key = (namespace.to_owned(), slice.to_owned());
        self.shared.change(|cluster| {
            let kind = if cluster.slices.contains_key(&key) { "MODIFIED" } else { "ADDED" };
            let object = cluster.note(kind, object);
            cluster.slices.insert(key, object);
        });
    }

    /// Removes a slice.
    pub fn delete(&self, namespace: &str, slice: &str) {
        self.shared.change(|cluster| {
            if let Some(object) = cluster.slices.remove(&(namespace.to_owned(), slice.to_owned())) {
                cluster.note("DELETED", object);
            }
        });
    }

    /// Sends a bookmark with a new version to all watches.
    pub fn bookmark(&self) {
        self.shared.change(|cluster| cluster.note("BOOKMARK", json!({"metadata": {"creationTimestamp": null}})));
    }

    /// Forgets all versions before the present one: watches that resume at them get 410.
    pub fn compact(&self) {
        self.shared.change(|cluster| {
            cluster.oldest = cluster.version;
            cluster.log.clear();
        });
    }

    /// Forgets everything, as a restored server does.
    pub fn lose_data(&self) {
        self.shared.change(|cluster| {
            *cluster = Cluster { version: 5000, oldest: 5000, token: cluster.token.clone(), ..Cluster::default() };
        });
        self.shared.fault(None);
    }

    /// Cuts all requests in progress.
    pub fn cut(&self) {
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

    /// Numbers of lists and of watches that were asked for.
    pub fn counts(&self) -> (usize, usize) {
        let requests = self.requests();
        let watches = requests.iter().filter(|request| request.parameter("watch").is_some()).count();
        (requests.len() - watches, watches)
    }
}

impl Cluster {
    /// Adds a change. Returns the object with its version.
    fn note(&mut self, kind: &'static str, mut object: Value) -> Value {
        self.version += 1;
        object["kind"] = json!("EndpointSlice");
        object["apiVersion"] = json!("discovery.k8s.io/v1");
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        self.log.push((self.version, kind, object.clone()));
        object
    }
}

fn answer(shared: &Shared<Cluster>, request: &Request) -> Response {
    let token = shared.lock().state.token.clone();
    let bearer = request.header("authorization").and_then(|value| value.strip_prefix("Bearer "));
    if token.is_some() && bearer != token.as_deref() {
        let body =
            json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Unauthorized", "code": 401});
        return Response { status: 401, ..Response::json(&body) };
    }
    let path: Vec<&str> = request.path.trim_matches('/').split('/').collect();
    let namespace = match path.as_slice() {
        ["apis", "discovery.k8s.io", "v1", "endpointslices"] => None,
        ["apis", "discovery.k8s.io", "v1", "namespaces", namespace, "endpointslices"] => Some((*namespace).to_owned()),
        _ => return Response::text(404, "404 page not found"),
    };
    let selector = request.parameter("labelSelector").unwrap_or_default().to_owned();
    let fits = move |object: &Value| {
        let labels = &object["metadata"]["labels"];
        namespace.as_deref().is_none_or(|namespace| object["metadata"]["namespace"] == namespace)
            && selector.split(',').filter(|term| !term.is_empty()).all(|term| match term.split_once('=') {
                Some((name, value)) => labels[name] == value,
                None => !labels[term].is_null(),
            })
    };
    if request.parameter("watch").is_some() { watch(shared, request, fits) } else { list(shared, request, fits) }
}

fn list(shared: &Shared<Cluster>, request: &Request, fits: impl Fn(&Value) -> bool) -> Response {
    let inner = shared.lock();
    let cluster = &inner.state;
    let limit = request.parameter("limit").and_then(|limit| limit.parse().ok()).unwrap_or(usize::MAX);
    let token = request.parameter("continue").and_then(|token| token.split_once(':'));
    let (version, start) = match token {
        Some((version, start)) => (version.parse().unwrap_or(0), start.parse().unwrap_or(0)),
        None => (cluster.version, 0),
    };
    if version < cluster.oldest {
        return Response { status: 410, ..Response::json(&gone()) };
    }
    let all: Vec<&Value> = cluster.slices.values().filter(|object| fits(object)).collect();
    let page: Vec<&Value> = all.iter().skip(start).take(limit).copied().collect();
    let mut metadata = json!({"resourceVersion": version.to_string()});
    if start + page.len() < all.len() {
        metadata["continue"] = json!(format!("{version}:{}", start + page.len()));
        metadata["remainingItemCount"] = json!(all.len() - start - page.len());
    }
    Response::json(
        &json!({"kind": "EndpointSliceList", "apiVersion": "discovery.k8s.io/v1", "metadata": metadata, "items": page}),
    )
}

fn gone() -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
           "message": "too old resource version: 1 (2)", "reason": "Expired", "code": 410})
}

/// Sends changes since `resourceVersion` until `timeoutSeconds` have passed.
fn watch(shared: &Shared<Cluster>, request: &Request, fits: impl Fn(&Value) -> bool + Send + 'static) -> Response {
    let mut version: u64 = request.parameter("resourceVersion").and_then(|version| version.parse().ok()).unwrap_or(0);
    let life = request.parameter("timeoutSeconds").and_then(|life| life.parse().ok()).unwrap_or(3600);
    let end = Instant::now() + Duration::from_secs(life);
    let has_bookmarks = request.parameter("allowWatchBookmarks") == Some("true");
    let oldest = shared.lock().state.oldest;
    if version < oldest {
        // The API server reports it as an event of a successful watch.
        let mut body = json!({"type": "ERROR", "object": gone()}).to_string();
        body.push('\n');
        return Response { body: body.into(), ..Response::status(200) };
    }
    let parts = move |shared: &dyn std::any::Any| {
        let shared: &Shared<Cluster> = shared.downcast_ref()?;
        shared.wait(end.saturating_duration_since(Instant::now()), |cluster| cluster.version > version);
        let inner = shared.lock();
        let mut lines = String::new();
        let since = version;
        for (number, kind, object) in inner.state.log.iter().filter(|(number, ..)| *number > since) {
            let is_sent = if *kind == "BOOKMARK" { has_bookmarks } else { fits(object) };
            if is_sent {
                lines.push_str(&json!({"type": kind, "object": object}).to_string());
                lines.push('\n');
            }
            version = *number;
        }
        version = version.max(inner.state.version);
        // Changes that do not fit are no part; an empty one would end the body.
        let is_over = Instant::now() >= end;
        (!is_over).then(|| if lines.is_empty() { b"\n".to_vec() } else { lines.into_bytes() })
    };
    Response { parts: Some(Box::new(parts)), ..Response::status(200) }
}
