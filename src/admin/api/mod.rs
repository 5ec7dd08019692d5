//! Endpoints of the admin port. One table routes requests and generates the OpenAPI document.

mod description;
mod openapi;
mod router;
mod table;

pub(super) use self::openapi::document;
pub(super) use self::router::{Found, find, find_exposed};
pub(super) use self::table::{ENDPOINTS, Operation};

/// Endpoint: a method on a path.
#[derive(Clone, Copy, Debug)]
pub(super) struct Endpoint {
    pub(super) method: Verb,
    pub(super) base: Base,
    /// Path below the base. `{name}` stands for one segment, `{name...}` for one or more.
    pub(super) path: &'static str,
    pub(super) access: Access,
    pub(super) operation: Operation,
}

/// Method of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verb {
    /// `GET`, and `HEAD`.
    Get,
    Put,
    Post,
    Delete,
}

/// Base path of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

/// Permission that a request needs. Requests over a Unix socket have all of them, and so have requests to a loopback
/// address, unless TLS there asks for client certificates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    /// None.
    Open,
    /// None with `management.metrics.open`, otherwise [`Self::Read`].
    Metrics,
    /// A token, or a client certificate.
    Read,
    /// A token with the role `write`, or a client certificate of `management.server.certificate-writers`.
    Write,
}

impl Verb {
    /// Returns the name of the method.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Put => "PUT",
            Self::Post => "POST",
            Self::Delete => "DELETE",
        }
    }
}

impl Endpoint {
    /// Returns true if the endpoint refuses every query parameter. Other endpoints either read parameters and check them
    /// themselves, or serve probes, scrapes and Spring's clients, which may send any.
    pub(super) fn refuses_parameters(&self) -> bool {
        self.base == Base::Root && self.path.starts_with("/api/") && !self.operation.reads_parameters()
    }

    /// Returns the path in OpenAPI's form, below the root or below `/actuator`.
    pub(super) fn template(&self) -> String {
        let base = match self.base {
            Base::Root => "",
            Base::Actuator => "/actuator",
            Base::Health => "/actuator/health",
            Base::Prometheus => "/actuator/prometheus",
            Base::Gateway => "/actuator/gateway",
        };
        openapi::template(&format!("{base}{}", self.path))
    }
}
