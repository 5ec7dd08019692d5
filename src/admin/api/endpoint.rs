//! Endpoint of the admin port: paths, permission, handler and description.

use std::pin::Pin;
use std::sync::Arc;

use http::{HeaderMap, Method, Response};
use hyper::body::Incoming;

use crate::admin::access::{Access, Caller};
use crate::admin::admin_state::AdminState;
use crate::admin::api::description::Description;
use crate::admin::connection_slots::Deadline;
use crate::admin::events::AdminBody;
use crate::admin::limits::Place;
use crate::admin::reply::Reply;
use crate::admin::request::parameters;
use tollgate_config::Actuator;

/// Endpoint: a method on one or more paths.
pub(in crate::admin) struct Endpoint {
    /// `GET` serves `HEAD`, too.
    pub(super) method: Method,
    pub(super) paths: Vec<EndpointPath>,
    pub(in crate::admin) access: Access,
    pub(in crate::admin) run: Run,
    pub(super) description: Description,
}

/// Path of an endpoint. `{name}` stands for one segment, `{name...}` for one or more.
#[derive(Clone, Copy, Debug)]
pub(in crate::admin) struct EndpointPath(pub(super) Base, pub(super) &'static str);

/// Work of an endpoint.
pub(in crate::admin) enum Run {
    /// Work without waiting.
    Now(fn(&Call<'_>) -> Reply),
    /// Anything that waits.
    Wait(for<'c> fn(&'c Call<'c>, Incoming) -> Pending<'c>),
    /// A response without end.
    Stream(fn(&Call<'_>, Deadline) -> Response<AdminBody>),
}

pub(in crate::admin) type Pending<'c> = Pin<Box<dyn Future<Output = Reply> + 'c>>;

/// Request for an endpoint.
pub(in crate::admin) struct Call<'c> {
    pub(in crate::admin) state: &'c Arc<AdminState>,
    /// Endpoints of Spring Boot that the port has.
    pub(in crate::admin) actuator: &'c Actuator,
    /// Values of the variables of the path, percent-decoded.
    pub(in crate::admin) values: Vec<Vec<u8>>,
    pub(in crate::admin) path: &'c str,
    pub(in crate::admin) query: &'c str,
    pub(in crate::admin) headers: &'c HeaderMap,
    pub(in crate::admin) caller: Caller,
    /// True if the client must show a token or a certificate.
    pub(in crate::admin) needs_identity: bool,
    /// True if the client may read everything.
    pub(in crate::admin) may_read: bool,
}

/// Base path of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Base {
    /// The root.
    Root,
    /// Base path of Spring Boot's endpoints, by default `/actuator`.
    Actuator,
    /// Path of Spring Boot's endpoint `health`.
    Health,
    /// Path of Spring Boot's endpoint `prometheus`.
    Prometheus,
    /// Path of Spring Boot's endpoint `gateway`.
    Gateway,
}

impl Call<'_> {
    /// Returns the value of the variable at `index`.
    pub(super) fn value(&self, index: usize) -> String {
        String::from_utf8_lossy(self.values.get(index).map_or(&[][..], Vec::as_slice)).into_owned()
    }

    /// Returns the names of a call for limits. The key after a final slash is empty.
    pub(super) fn place(&self) -> Place<'_> {
        let empty = || self.path.ends_with('/').then_some(&[][..]);
        let [route, key] = [0, 1].map(|index| self.values.get(index).map(Vec::as_slice));
        Place { route: route.unwrap_or_default(), key: key.or_else(empty), query: self.query }
    }
}

/// Writes endpoints as `METHOD [BASE "PATH", …] ACCESS WORK => DESCRIPTION;`.
macro_rules! endpoints {
    ($($method:ident [$($base:ident $path:literal),+] $access:ident $run:ident($($work:tt)*) => $description:expr;)*) => {
        vec![$($crate::admin::api::endpoint::Endpoint {
            method: http::Method::$method,
            paths: vec![$($crate::admin::api::endpoint::EndpointPath($crate::admin::api::endpoint::Base::$base, $path)),+],
            access: $crate::admin::access::Access::$access,
            run: $crate::admin::api::endpoint::Run::$run($($work)*),
            description: $description,
        }),*]
    };
}
pub(super) use endpoints;

impl Endpoint {
    /// Returns true if the endpoint refuses unknown query parameters at `path`. Probes, scrapes and Spring's clients may send any.
    pub(super) fn refuses_parameters(path: EndpointPath) -> bool {
        path.0 == Base::Root && path.1.starts_with("/api/")
    }

    /// Returns the error of the first parameter of `query` that the endpoint refuses.
    pub(in crate::admin) fn unknown_parameter(&self, path: EndpointPath, query: &str) -> Option<String> {
        let names: Vec<_> = self.description.query.iter().map(|(name, ..)| *name).collect();
        let mut unknown = parameters(query).filter(|(name, _)| !names.contains(&name.as_str()));
        let (name, _) = unknown.next().filter(|_| Self::refuses_parameters(path))?;
        let advice = match names.as_slice() {
            [] => "this endpoint has none".to_owned(),
            [one] => format!("use {one}"),
            [others @ .., last] => format!("use {} or {last}", others.join(", ")),
        };
        Some(format!("unknown query parameter `{name}`; {advice}"))
    }

    /// Returns false for a change of Spring's that the configuration forbids.
    pub(super) fn is_enabled(&self, path: EndpointPath, actuator: &Actuator) -> bool {
        path.0 == Base::Root || self.access != Access::Write || actuator.may_refresh
    }

    /// Returns the method and the path in OpenAPI's form, below the root or below `/actuator`.
    pub(in crate::admin) fn names(&self, path: EndpointPath) -> (&str, String) {
        let base = match path.0 {
            Base::Root => "",
            Base::Actuator => "/actuator",
            Base::Health => "/actuator/health",
            Base::Prometheus => "/actuator/prometheus",
            Base::Gateway => "/actuator/gateway",
        };
        (self.method.as_str(), template(&format!("{base}{}", path.1)))
    }
}

impl EndpointPath {
    /// Returns the start of the path; `None` if the configuration disables it.
    pub(super) fn base(self, actuator: &Actuator) -> Option<&str> {
        match self.0 {
            Base::Root => Some(""),
            Base::Actuator => Some(&*actuator.base).filter(|base| !base.is_empty()),
            Base::Health if !self.1.is_empty() && !actuator.has_probes => None,
            Base::Health => actuator.health.as_deref(),
            Base::Prometheus => actuator.prometheus.as_deref(),
            Base::Gateway => actuator.gateway.as_deref(),
        }
    }
}

/// Returns a path in OpenAPI's form: `{name...}` becomes `{name}`.
pub(super) fn template(path: &str) -> String {
    path.replace("...}", "}")
}
