//! Registration of the gateway itself in registries. It starts when the workers accept requests. Heartbeats keep it, a
//! registry that has lost it gets it again, and it is removed before the gateway drains.

mod address;
mod requests;

use std::cell::{Cell, OnceCell};
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use http::header::CONTENT_TYPE;
use http::{HeaderName, HeaderValue, Method, StatusCode};
use tokio::time::{sleep, timeout};

use self::address::gateway_address;
use crate::client::{Call, HttpClient, RegistryError, Reply, retry_after};
use crate::consul::token;
use crate::nacos::NacosClient;
use tollgate_config::{RegisteredInstance, Registration, Registry, RegistryServer};
use tollgate_transport::error_chain;
use tollgate_transport::executor::OwnedTask;
use tollgate_transport::small_client::CallError;

/// Timeout of a request to a registry.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Time for the deregistration from all registries. The drain waits for it.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(2);

/// The gateway as an instance: its settings, and the values that are known at run time only.
#[derive(Clone, Debug)]
struct RegistrationEntry {
    settings: RegisteredInstance,
    id: String,
    host: String,
    port: u16,
    is_secure: bool,
}

/// Request to a registry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Register,
    /// Heartbeat.
    Renew,
    Leave,
}

/// Client of one registry.
#[derive(Debug)]
enum Registrar {
    Consul(HttpRegistrar),
    Eureka(HttpRegistrar),
    Nacos(Box<NacosClient>),
}

/// Client of a registry that has one request for each step.
#[derive(Debug)]
struct HttpRegistrar {
    clients: Vec<HttpClient>,
    /// Server that responded last.
    current: Cell<usize>,
    headers: Vec<(HeaderName, HeaderValue)>,
    /// Returns method, target and body of a request.
    request: fn(&RegistrationEntry, Step) -> (Method, String, String),
}

/// Registrations of the running configuration.
#[derive(Debug, Default)]
pub struct Registrations {
    settings: Vec<Registration>,
    running: Vec<Running>,
}

#[derive(Debug)]
struct Running {
    shared: Rc<RegistrationState>,
    _heartbeats: OwnedTask,
}

#[derive(Debug)]
struct RegistrationState {
    registrar: Registrar,
    servers: Vec<RegistryServer>,
    settings: RegisteredInstance,
    listener: SocketAddr,
    is_secure: bool,
    /// Set with the first registration: the address of the gateway is found by then.
    entry: OnceCell<RegistrationEntry>,
    is_registered: Cell<bool>,
}

impl Registrations {
    /// Registers the gateway, which listens on `listener`, in the registries of `settings`, and deregisters it from others.
    /// The heartbeats run as local tasks.
    pub async fn apply(&mut self, settings: &[Registration], listener: SocketAddr, is_secure: bool) {
        if self.settings == settings {
            return;
        }
        self.leave().await;
        self.settings = settings.to_vec();
        self.running = settings.iter().filter_map(|settings| Running::start(settings, listener, is_secure)).collect();
    }

    /// Deregisters the gateway from all registries, within two seconds.
    pub async fn leave(&mut self) {
        self.settings.clear();
        let all = async {
            for Running { shared, _heartbeats } in self.running.drain(..) {
                // A heartbeat after the deregistration could register the gateway again.
                drop(_heartbeats);
                shared.leave().await;
            }
        };
        if timeout(LEAVE_TIMEOUT, all).await.is_err() {
            tracing::warn!(timeout = ?LEAVE_TIMEOUT, "a registry did not respond: the registration ends with its lease");
        }
    }
}

impl Running {
    fn start(settings: &Registration, listener: SocketAddr, is_secure: bool) -> Option<Self> {
        let (registrar, servers) = match &settings.registry {
            Registry::Consul(consul) => {
                let clients = vec![HttpClient::new(&consul.server, &consul.tls)];
                let (current, headers) = (Cell::new(0), token(consul));
                let registrar = HttpRegistrar { clients, current, headers, request: requests::consul };
                (Registrar::Consul(registrar), vec![consul.server.clone()])
            }
            Registry::Eureka(eureka) => {
                let clients = eureka.servers.iter().map(|server| HttpClient::new(server, &eureka.tls)).collect();
                let headers = vec![(CONTENT_TYPE, HeaderValue::from_static("application/json"))];
                let registrar = HttpRegistrar { clients, current: Cell::new(0), headers, request: requests::eureka };
                (Registrar::Eureka(registrar), eureka.servers.clone())
            }
            Registry::Nacos(nacos) => (Registrar::Nacos(Box::new(NacosClient::new(nacos))), nacos.servers.clone()),
            Registry::Kubernetes(_) => return None,
        };
        let shared = Rc::new(RegistrationState {
            registrar,
            servers,
            settings: settings.instance.clone(),
            listener,
            is_secure,
            entry: OnceCell::new(),
            is_registered: Cell::new(false),
        });
        let _heartbeats = OwnedTask::start(keep_registered(Rc::clone(&shared)));
        Some(Self { shared, _heartbeats })
    }
}

/// Registers the gateway, and sends heartbeats until it is dropped.
async fn keep_registered(shared: Rc<RegistrationState>) {
    let mut failures = 0;
    loop {
        let sent = shared.send().await;
        let (registry, id) = (shared.registrar.kind(), shared.id());
        let pause = match sent {
            Ok(is_known) => {
                if is_known && !shared.is_registered.replace(true) {
                    tracing::info!(registry, id, "registered");
                } else if !is_known {
                    shared.is_registered.set(false);
                    tracing::warn!(registry, id, "the registry has forgotten the gateway: registering again");
                }
                let is_again = !is_known && failures == 0;
                failures = if is_known { 0 } else { failures + 1 };
                if is_again { Duration::ZERO } else { shared.settings.heartbeat }
            }
            Err(error) => {
                if failures == 0 {
                    tracing::error!(registry, id, error = error_chain(&error), "registration failed");
                }
                failures += 1;
                retry_after(failures - 1).min(shared.settings.heartbeat)
            }
        };
        sleep(pause).await;
    }
}

impl RegistrationState {
    /// Registers the gateway, or sends a heartbeat if it is registered. Returns false if the registry does not know it.
    async fn send(&self) -> Result<bool, RegistryError> {
        let entry = self.entry().await?;
        if self.is_registered.get() {
            return self.registrar.send(entry, Step::Renew).await;
        }
        self.registrar.send(entry, Step::Register).await?;
        if let Registrar::Consul(_) = self.registrar {
            // A check by TTL is critical until its first heartbeat.
            self.registrar.send(entry, Step::Renew).await?;
        }
        Ok(true)
    }

    async fn entry(&self) -> io::Result<&RegistrationEntry> {
        if let Some(entry) = self.entry.get() {
            return Ok(entry);
        }
        let settings = self.settings.clone();
        let host = match settings.host.get() {
            Some(host) => host.to_owned(),
            None => gateway_address(self.listener.ip(), &self.servers).await?.to_string(),
        };
        let port = settings.port.unwrap_or(self.listener.port());
        let id = settings.id.get().map_or_else(|| format!("{host}:{}:{port}", settings.name.as_str()), str::to_owned);
        Ok(self.entry.get_or_init(|| RegistrationEntry { settings, id, host, port, is_secure: self.is_secure }))
    }

    /// Returns the id for the log; before it is known, the name of the service.
    fn id(&self) -> &str {
        self.entry.get().map_or(self.settings.name.as_str(), |entry| &entry.id)
    }

    async fn leave(&self) {
        let Some(entry) = self.entry.get() else { return };
        let (registry, id) = (self.registrar.kind(), entry.id.as_str());
        // Sent even if the gateway does not count as registered: the response to a registration may have been lost.
        match self.registrar.send(entry, Step::Leave).await {
            Ok(_) => tracing::info!(registry, id, "deregistered"),
            Err(error) => tracing::warn!(registry, id, error = error_chain(&error), "deregistration failed"),
        }
    }
}

impl Registrar {
    fn kind(&self) -> &'static str {
        match self {
            Self::Consul(_) => "consul",
            Self::Eureka(_) => "eureka",
            Self::Nacos(_) => "nacos",
        }
    }

    /// Sends a request. Returns false if the registry does not know the instance.
    async fn send(&self, entry: &RegistrationEntry, step: Step) -> Result<bool, RegistryError> {
        let reply = match self {
            Self::Consul(consul) => match consul.send(entry, step).await {
                // Agents before 1.11 answer 500 for an unknown check.
                Err(CallError::Status(StatusCode::INTERNAL_SERVER_ERROR)) if step == Step::Renew => return Ok(false),
                reply => reply?,
            },
            Self::Eureka(eureka) => eureka.send(entry, step).await?,
            Self::Nacos(client) => requests::nacos(client, entry, step).await?,
        };
        match reply.status {
            StatusCode::NOT_FOUND if step != Step::Register => Ok(false),
            StatusCode::NO_CONTENT => Ok(true),
            _ => Ok(reply.ok().map(|_| true)?),
        }
    }
}

impl HttpRegistrar {
    /// Sends a request to the server that responded last, or to the next one.
    async fn send(&self, entry: &RegistrationEntry, step: Step) -> Result<Reply, CallError> {
        let (method, target, body) = (self.request)(entry, step);
        let mut last = CallError::Status(StatusCode::SERVICE_UNAVAILABLE);
        for _ in 0..self.clients.len() {
            let call = Call::new(method.clone(), &target, TIMEOUT).headers(&self.headers).body(body.clone());
            match self.clients[self.current.get()].send(&call).await {
                Ok(reply) if !reply.status.is_server_error() => return Ok(reply),
                Ok(reply) => last = CallError::Status(reply.status),
                Err(error) => last = error,
            }
            self.current.set((self.current.get() + 1) % self.clients.len());
        }
        Err(last)
    }
}
