//! Nacos: a lookup of each service at an interval, by the HTTP API of 1.x to 3.x.
//!
//! The version of the API is found by trying: a server without the API of 3.x answers 404, and gets that of 1.x, which 2.x
//! has too.

pub(super) mod read;
mod register;

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Method, StatusCode};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use thiserror::Error;
use tokio::sync::{Mutex, Semaphore};
use tokio::time::{Instant, sleep};

use self::read::ReadError;
use crate::client::{Call, ClientError, HttpClient, Reply};
use crate::names::NamesSink;
use crate::service::Sink;
use crate::status::RegistryStatus;
use crate::task::{Watch, retry_after};
use crate::{Instance, Registry};
use tollgate_config::Nacos;

/// Timeout of a request.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Names of services in one response.
const PAGE: usize = 500;
/// Most responses with names of services.
const MAX_PAGES: usize = 20;
/// Most requests at a time.
const MAX_REQUESTS: usize = 16;

/// Nacos.
#[derive(Debug)]
pub(super) struct NacosRegistry(Rc<Shared>);

#[derive(Debug)]
pub(crate) struct Shared {
    settings: Nacos,
    clients: Vec<HttpClient>,
    /// Server that answered last.
    current: Cell<usize>,
    version: Cell<Version>,
    token: RefCell<Option<Token>>,
    /// Held while a login is sent.
    login: Mutex<()>,
    slots: Semaphore,
    status: Arc<RegistryStatus>,
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

/// Access token.
#[derive(Clone, Debug)]
struct Token {
    text: tollgate_config::Secret,
    renew_at: Instant,
}

/// Error of a lookup.
#[derive(Debug, Error)]
pub(crate) enum LookupError {
    #[error("no usable response")]
    Client(#[from] ClientError),
    #[error("the response cannot be read")]
    Read(#[from] ReadError),
    #[error("login failed")]
    Login(#[source] ClientError),
    #[error("the response to the login cannot be read")]
    LoginShape(#[source] ReadError),
}

impl NacosRegistry {
    /// Creates the registry. It opens connections when services are watched.
    pub(super) fn new(settings: &Nacos) -> Self {
        let servers: Vec<_> = settings.servers.iter().map(ToString::to_string).collect();
        Self(Rc::new(Shared {
            settings: settings.clone(),
            clients: settings.servers.iter().map(|server| HttpClient::new(server, &settings.tls)).collect(),
            current: Cell::new(0),
            version: Cell::new(Version::Unknown),
            token: RefCell::default(),
            login: Mutex::default(),
            slots: Semaphore::new(MAX_REQUESTS),
            status: Arc::new(RegistryStatus::new("nacos", servers.join(","))),
        }))
    }
}

impl Registry for NacosRegistry {
    fn status(&self) -> &Arc<RegistryStatus> {
        &self.0.status
    }

    fn watch(&self, name: &str, sink: Sink) -> Box<dyn Any> {
        Box::new(Watch::start(follow(Rc::clone(&self.0), name.to_owned(), sink)))
    }

    fn watch_names(&self, sink: NamesSink) -> Box<dyn Any> {
        Box::new(Watch::start(follow_names(Rc::clone(&self.0), sink)))
    }
}

async fn follow(nacos: Rc<Shared>, name: String, sink: Sink) {
    let mut failures = 0;
    loop {
        let pause = match nacos.look_up(&name).await {
            Ok(instances) => {
                nacos.status.succeed();
                sink.publish(instances);
                failures = 0;
                // A thousand services are not looked up at the same moment.
                nacos.settings.interval.mul_f64(0.9 + 0.1 * fastrand::f64())
            }
            Err(error) => {
                nacos.status.fail(&name, &error);
                failures += 1;
                retry_after(failures - 1).min(nacos.settings.interval)
            }
        };
        sleep(pause).await;
    }
}

/// Publishes the names of all services at the interval of lookups.
async fn follow_names(nacos: Rc<Shared>, sink: NamesSink) {
    let mut failures = 0;
    loop {
        let pause = match nacos.names().await {
            Ok(names) => {
                nacos.status.succeed();
                sink.publish(names);
                failures = 0;
                nacos.settings.interval
            }
            Err(error) => {
                nacos.status.fail("services", &error);
                failures += 1;
                retry_after(failures - 1).min(nacos.settings.interval)
            }
        };
        sleep(pause).await;
    }
}

impl Shared {
    /// Returns the names of all services of the group.
    async fn names(&self) -> Result<Vec<String>, LookupError> {
        let client = &self.clients[self.current.get()];
        let mut names = Vec::new();
        for page in 1..=MAX_PAGES {
            let reply = self.names_of(client, page).await?;
            let (count, mut found) = read::names(&reply.ok()?)?;
            let is_last = found.is_empty();
            names.append(&mut found);
            if is_last || names.len() >= count {
                break;
            }
        }
        Ok(names)
    }

    async fn names_of(&self, client: &HttpClient, page: usize) -> Result<Reply, LookupError> {
        let Nacos { namespace, group, .. } = &self.settings;
        let token = self.token(client).await?;
        let token = token.as_ref().map_or("", |token| token.text.0.as_str());
        let (page, size) = (page.to_string(), PAGE.to_string());
        let parameters = |group_key| {
            form(&[
                ("pageNo", page.as_str()),
                ("pageSize", size.as_str()),
                (group_key, group.as_str()),
                ("namespaceId", namespace.as_str()),
                ("accessToken", token),
            ])
        };
        if self.version.get() != Version::V1 {
            let target = format!("/v3/admin/ns/service/list?{}", parameters("groupNameParam"));
            let reply = client.send(&Call::get(&target, TIMEOUT)).await?;
            if reply.status != StatusCode::NOT_FOUND {
                return Ok(reply);
            }
        }
        let target = format!("/v1/ns/service/list?{}", parameters("groupName"));
        Ok(client.send(&Call::get(&target, TIMEOUT)).await?)
    }

    async fn look_up(&self, name: &str) -> Result<Vec<Instance>, LookupError> {
        // The semaphore is never closed.
        let _slot = self.slots.acquire().await.ok();
        let at = self.current.get();
        let found = self.ask(&self.clients[at], name).await;
        if found.is_err() && self.current.get() == at {
            self.current.set((at + 1) % self.clients.len());
            self.version.set(Version::Unknown);
        }
        found
    }

    async fn ask(&self, client: &HttpClient, name: &str) -> Result<Vec<Instance>, LookupError> {
        let mut reply = self.list(client, name).await?;
        let denied = [StatusCode::FORBIDDEN, StatusCode::UNAUTHORIZED];
        if denied.contains(&reply.status) && self.token.borrow_mut().take().is_some() {
            // The server may have been restarted with another key.
            reply = self.list(client, name).await?;
        }
        Ok(read::instances(&reply.ok()?)?)
    }

    async fn list(&self, client: &HttpClient, name: &str) -> Result<Reply, LookupError> {
        if self.version.get() != Version::V1 {
            let reply = self.send(client, "/v3/client/ns/instance/list", "clusterName", name).await?;
            if ![StatusCode::NOT_FOUND, StatusCode::GONE, StatusCode::METHOD_NOT_ALLOWED].contains(&reply.status) {
                self.version.set(Version::V3);
                return Ok(reply);
            }
        }
        self.version.set(Version::V1);
        self.send(client, "/v1/ns/instance/list", "clusters", name).await
    }

    async fn send(&self, client: &HttpClient, path: &str, clusters: &str, name: &str) -> Result<Reply, LookupError> {
        let Nacos { namespace, group, clusters: wanted, .. } = &self.settings;
        let token = self.token(client).await?;
        let parameters = [
            ("serviceName", name),
            ("groupName", group),
            ("namespaceId", namespace),
            (clusters, wanted),
            ("healthyOnly", "false"),
            ("accessToken", token.as_ref().map_or("", |token| token.text.0.as_str())),
        ];
        Ok(client.send(&Call::get(&format!("{path}?{}", form(&parameters)), TIMEOUT)).await?)
    }

    /// Returns the access token, after a login if it is missing or about to expire; `None` without a user name.
    async fn token(&self, client: &HttpClient) -> Result<Option<Token>, LookupError> {
        let Some((username, password)) = &self.settings.login else { return Ok(None) };
        let _one = self.login.lock().await;
        if let Some(token) = self.token.borrow().as_ref().filter(|token| Instant::now() < token.renew_at) {
            return Ok(Some(token.clone()));
        }
        let body = Bytes::from(form(&[("username", username), ("password", &password.0)]));
        let headers = [(CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded"))];
        let call = |target| Call {
            method: Method::POST,
            target,
            headers: &headers,
            body: body.clone(),
            timeout: TIMEOUT,
            is_repeated: true,
        };
        let mut reply = client.send(&call("/v3/auth/user/login")).await.map_err(LookupError::Login)?;
        if reply.status != StatusCode::OK {
            reply = client.send(&call("/v1/auth/login")).await.map_err(LookupError::Login)?;
        }
        let (text, seconds) = read::token(&reply.ok().map_err(LookupError::Login)?).map_err(LookupError::LoginShape)?;
        let token = Token {
            text: tollgate_config::Secret(text),
            renew_at: Instant::now() + Duration::from_secs(seconds.min(86_400)).mul_f64(0.9),
        };
        *self.token.borrow_mut() = Some(token.clone());
        Ok(Some(token))
    }
}

/// Returns parameters as a form, without empty ones.
fn form(parameters: &[(&str, &str)]) -> String {
    let given = parameters.iter().filter(|(_, value)| !value.is_empty());
    let parts = given.map(|(name, value)| format!("{name}={}", utf8_percent_encode(value, NON_ALPHANUMERIC)));
    parts.collect::<Vec<_>>().join("&")
}
