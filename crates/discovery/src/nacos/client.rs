//! Requests to the servers of Nacos: version of the API, login, failover.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Method, StatusCode};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use tokio::sync::{Mutex, Semaphore};
use tokio::time::Instant;
use tollgate_config::{Nacos, Secret};

use super::read;
use crate::client::{Call, HttpClient, RegistryError, Reply};
use crate::status::RegistryStatus;

/// Timeout of a request.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum number of requests at a time.
const MAX_REQUESTS: usize = 16;
/// Bytes that are encoded in parameters: all but the unreserved ones of RFC 3986. Some servers do not decode tokens.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
/// Status codes of a server that lacks a version of the API.
const ABSENT: [StatusCode; 3] = [StatusCode::NOT_FOUND, StatusCode::GONE, StatusCode::METHOD_NOT_ALLOWED];
/// Status codes of a refused access token.
const DENIED: [StatusCode; 2] = [StatusCode::FORBIDDEN, StatusCode::UNAUTHORIZED];

/// Client of all servers of one Nacos cluster. Requests go to one server until it fails.
#[derive(Debug)]
pub(crate) struct NacosClient {
    pub(crate) settings: Nacos,
    pub(super) status: Arc<RegistryStatus>,
    servers: Vec<HttpClient>,
    /// Index of the server in use.
    current: Cell<usize>,
    version: Cell<Version>,
    token: RefCell<Option<Token>>,
    /// Held while a login is sent.
    login: Mutex<()>,
    slots: Semaphore,
}

/// Version of the HTTP API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    /// Not known yet.
    Unknown,
    /// 1.x and 2.x.
    V1,
    /// 3.x.
    V3,
}

/// Access token, and the time from which a login replaces it.
#[derive(Clone, Debug)]
struct Token {
    text: Secret,
    renew_at: Instant,
}

/// Path and parameters of a request in one version of the API.
#[derive(Clone, Copy)]
pub(crate) struct ApiEndpoint<'e> {
    pub(crate) path: &'e str,
    pub(crate) parameters: &'e [(&'e str, &'e str)],
}

/// Request in the versions of the API.
pub(crate) struct ApiRequest<'e> {
    pub(crate) method: Method,
    pub(crate) v3: ApiEndpoint<'e>,
    pub(crate) v1: ApiEndpoint<'e>,
}

impl NacosClient {
    /// Creates a client, without a connection.
    pub(crate) fn new(settings: &Nacos) -> Self {
        let servers: Vec<_> = settings.servers.iter().map(ToString::to_string).collect();
        Self {
            settings: settings.clone(),
            status: Arc::new(RegistryStatus::new("nacos", servers.join(","))),
            servers: settings.servers.iter().map(|server| HttpClient::new(server, &settings.tls)).collect(),
            current: Cell::new(0),
            version: Cell::new(Version::Unknown),
            token: RefCell::default(),
            login: Mutex::default(),
            slots: Semaphore::new(MAX_REQUESTS),
        }
    }

    /// Returns true if the server in use has the API of 3.x.
    pub(crate) fn is_v3(&self) -> bool {
        self.version.get() == Version::V3
    }

    /// Sends a request in the version of the API that the server has, and lets `read` read the response. After an error,
    /// the next request goes to the next server.
    pub(crate) async fn request<T>(
        &self,
        request: &ApiRequest<'_>,
        read: impl FnOnce(Reply) -> Result<T, RegistryError>,
    ) -> Result<T, RegistryError> {
        // The semaphore is never closed.
        let _slot = self.slots.acquire().await.ok();
        let at = self.current.get();
        let result = self.with_login(&self.servers[at], request).await.and_then(read);
        if result.is_err() && self.current.get() == at {
            self.current.set((at + 1) % self.servers.len());
            self.version.set(Version::Unknown);
        }
        result
    }

    /// Sends a request, and once more after a new login if the server refuses the token: it may have restarted with
    /// another key.
    async fn with_login(&self, server: &HttpClient, request: &ApiRequest<'_>) -> Result<Reply, RegistryError> {
        let reply = self.with_version(server, request).await?;
        if DENIED.contains(&reply.status) && self.token.borrow_mut().take().is_some() {
            return self.with_version(server, request).await;
        }
        Ok(reply)
    }

    async fn with_version(&self, server: &HttpClient, request: &ApiRequest<'_>) -> Result<Reply, RegistryError> {
        let ApiRequest { method, v3, v1 } = request;
        if self.version.get() != Version::V1 {
            let reply = self.send(server, method, *v3).await?;
            if !ABSENT.contains(&reply.status) {
                self.version.set(Version::V3);
                return Ok(reply);
            }
        }
        let reply = self.send(server, method, *v1).await?;
        if !ABSENT.contains(&reply.status) {
            self.version.set(Version::V1);
        }
        Ok(reply)
    }

    async fn send(
        &self,
        server: &HttpClient,
        method: &Method,
        endpoint: ApiEndpoint<'_>,
    ) -> Result<Reply, RegistryError> {
        let token = self.token(server).await?;
        let mut parameters = endpoint.parameters.to_vec();
        parameters.push(("namespaceId", self.settings.discovery.namespace()));
        parameters.push(("accessToken", token.as_ref().map_or("", |token| &token.text.0)));
        let target = format!("{}?{}", endpoint.path, form(&parameters));
        Ok(server.send(&Call::new(method.clone(), &target, TIMEOUT)).await?)
    }

    /// Returns the access token, after a login if it is missing or about to expire; `None` without a user name.
    async fn token(&self, server: &HttpClient) -> Result<Option<Token>, RegistryError> {
        let Some((username, password)) = self.settings.login() else { return Ok(None) };
        let _one = self.login.lock().await;
        if let Some(token) = self.token.borrow().as_ref().filter(|token| Instant::now() < token.renew_at) {
            return Ok(Some(token.clone()));
        }
        let body = Bytes::from(form(&[("username", username), ("password", password)]));
        let headers = [(CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded"))];
        let call = |target| Call::new(Method::POST, target, TIMEOUT).headers(&headers).body(body.clone());
        let mut reply = server.send(&call("/v3/auth/user/login")).await.map_err(RegistryError::Login)?;
        if reply.status != StatusCode::OK {
            reply = server.send(&call("/v1/auth/login")).await.map_err(RegistryError::Login)?;
        }
        let (text, seconds) =
            read::token(&reply.ok().map_err(RegistryError::Login)?).map_err(RegistryError::LoginShape)?;
        let token = Token {
            text: Secret(text),
            renew_at: Instant::now() + Duration::from_secs(seconds.min(86_400)).mul_f64(0.9),
        };
        *self.token.borrow_mut() = Some(token.clone());
        Ok(Some(token))
    }
}

/// Returns parameters as a form, without empty ones.
fn form(parameters: &[(&str, &str)]) -> String {
    let nonempty = parameters.iter().filter(|(_, value)| !value.is_empty());
    let parts = nonempty.map(|(name, value)| format!("{name}={}", utf8_percent_encode(value, RESERVED)));
    parts.collect::<Vec<_>>().join("&")
}
