//! `tollgate check --connect`: connections to the servers that a valid configuration names.

use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::num::NonZeroUsize;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use futures_util::stream::{self, StreamExt as _};
use tokio::runtime::Builder;
use tokio::task::LocalSet;
use tokio::time::{Instant, timeout_at};

#[cfg(feature = "jwt")]
use tollgate_config::KeySource;
use tollgate_config::{
    Atomicity, Config, Diagnostics, DnsQuery, EndpointSource, Http2, HttpClient, RateLimiter, Registry, Route, Scheme,
    Target, Tls, redis_keys,
};
use tollgate_discovery::dns;
use tollgate_limiter::store::redis::{HostPort, ProbeFailure, StoreError};
use tollgate_proxy::upstream::balance::endpoint_origin;
use tollgate_proxy::upstream::origin::Origin;
use tollgate_proxy::upstream::pool::{ConnectError, Pool, PoolSettings};
use tollgate_proxy::upstream::proxy::applies_to;
use tollgate_transport::error_chain;

/// Time for all servers.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Servers that are looked up or connected to at the same time.
const AT_ONCE: usize = 64;

/// Server that cannot be used.
#[derive(Clone)]
pub(super) struct Problem {
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) message: String,
    pub(super) help: Option<String>,
}

/// Connects to each server that `config` names, as the gateway would. Adds a warning for each that cannot be used.
pub(super) fn check(config: &Config, diagnostics: &mut Diagnostics) {
    report(problems(config), diagnostics);
}

/// Looks for problems on a runtime of its own. Adds a warning for each, at the place of its server.
pub(super) fn report(problems: impl Future<Output = Vec<Problem>>, diagnostics: &mut Diagnostics) {
    let runtime = match Builder::new_current_thread().enable_all().max_blocking_threads(AT_ONCE).build() {
        Ok(runtime) => runtime,
        Err(error) => {
            diagnostics.error_nowhere(format!("servers cannot be looked up: {error}"));
            return;
        }
    };
    let problems = LocalSet::new().block_on(&runtime, problems);
    // A lookup of the system cannot be cancelled, and may take longer than the time for all servers.
    runtime.shutdown_background();
    for Problem { host, port, message, help } in problems {
        let place = diagnostics.servers.of(&host, port).unwrap_or(diagnostics.root);
        let warning = diagnostics.warn(place, message);
        if let Some(help) = help {
            warning.help(help);
        }
    }
}

/// Connects to all servers within [`TIMEOUT`].
async fn problems(config: &Config) -> Vec<Problem> {
    let deadline = Instant::now() + TIMEOUT;
    let (redis, others) = tokio::join!(redis_problems(config), http_problems(config, deadline));
    redis.into_iter().chain(others).collect()
}

async fn redis_problems(config: &Config) -> Vec<Problem> {
    let Some(redis) = &config.redis else { return Vec::new() };
    let is_locked = |limit: &RateLimiter| matches!(limit.atomicity, Atomicity::Lock(_));
    let mut limiters = config.routes.iter().flat_map(Route::rate_limiters).map(|naming| naming.limiter).peekable();
    let runs_scripts = limiters.peek().is_none() || !limiters.all(is_locked);
    let problem = |failure: ProbeFailure| {
        let ProbeFailure { server, reason, command, detail } = failure;
        let during = command.map_or(String::new(), |command| format!(" refuses `{command}`"));
        let server_name = if server.port == 0 { server.host.clone() } else { server.to_string() };
        let message = format!("redis at `{server_name}`{during}: {detail}");
        Problem { message, help: remedy(reason), host: server.host, port: server.port }
    };
    redis.settings.probe(runs_scripts).await.into_iter().map(problem).collect()
}

/// Returns the remedy for `reason`, with the keys to look at.
fn remedy(reason: StoreError) -> Option<String> {
    if matches!(reason, StoreError::Disconnected | StoreError::Other) {
        return None;
    }
    Some(redis_keys(reason).map_or_else(|| reason.to_string(), |keys| format!("{reason} ({keys})")))
}

async fn http_problems(config: &Config, deadline: Instant) -> Vec<Problem> {
    let probe = Probe {
        config,
        settings: PoolSettings::for_worker(&config.http_client, 0, NonZeroUsize::MIN),
        deadline,
        untried: Cell::new(0),
    };
    let servers = Servers::of(config).list;
    let probes = stream::iter(servers.into_iter().map(|server| probe.server(server))).buffer_unordered(AT_ONCE);
    let mut problems = probes.collect::<Vec<_>>().await.concat();
    if probe.untried.get() > 0 {
        let message = format!("{} more servers were not tried within {TIMEOUT:?}", probe.untried.get());
        problems.push(Problem { host: String::new(), port: 0, message, help: None });
    }
    problems
}

/// Connections to the servers of a configuration.
struct Probe<'c> {
    config: &'c Config,
    settings: PoolSettings,
    deadline: Instant,
    /// Servers whose turn came after the deadline.
    untried: Cell<usize>,
}

impl Probe<'_> {
    /// Connects to a server, or to each endpoint of a name.
    async fn server(&self, server: Server<'_>) -> Vec<Problem> {
        if Instant::now() >= self.deadline {
            self.untried.set(self.untried.get() + 1);
            return Vec::new();
        }
        let Server { peer, host, port, connect_timeout } = server;
        let messages = match peer {
            Peer::Own(origin) => {
                let settings = PoolSettings { proxy: None, ..self.settings.clone() };
                vec![self.connect(origin, settings, connect_timeout).await]
            }
            Peer::Upstream(origin) => vec![self.connect(origin, self.settings.clone(), connect_timeout).await],
            Peer::Name { query, scheme, tls, http2 } => {
                match timeout_at(self.deadline, dns::look_up(query, &self.config.dns)).await {
                    Err(_) => vec![Some(format!("no reply from DNS about `{host}` within {TIMEOUT:?}"))],
                    Ok(Err(error)) => vec![Some(format!("`{host}` has no endpoints in DNS: {}", error_chain(&error)))],
                    Ok(Ok(found)) => {
                        let origins = found.endpoints.iter().map(|at| endpoint_origin(&at.address, scheme, tls, http2));
                        let connecting = origins.map(|at| self.connect(at, self.settings.clone(), connect_timeout));
                        join_all(connecting).await
                    }
                }
            }
        };
        let problem = |message| Problem { host: host.clone(), port, message, help: None };
        messages.into_iter().flatten().map(problem).collect()
    }

    /// Connects to `origin` once. Returns the reason if that fails.
    async fn connect(&self, origin: Origin, settings: PoolSettings, connect_timeout: Duration) -> Option<String> {
        let host = origin.address.map_or_else(|| origin.host.clone(), |address| address.to_string());
        let proxy = settings.proxy.clone().filter(|proxy| applies_to(proxy, &origin.host));
        let server_name = match proxy {
            Some(proxy) => format!("the proxy `{}:{}`", proxy.host, proxy.port),
            None => format!("`{}`", HostPort { host, port: origin.port }),
        };
        let pool = Pool::new(origin, Rc::new(RefCell::new(settings)));
        Some(match timeout_at(self.deadline, pool.connect(connect_timeout, false)).await {
            Ok(Ok(_)) => return None,
            Ok(Err(ConnectError::Resolve(error))) => format!("{server_name} has no address: {error}"),
            Ok(Err(ConnectError::Connect(error))) => format!("cannot connect to {server_name}: {error}"),
            Ok(Err(error)) => format!("cannot connect to {server_name}: {}", error_chain(&error)),
            Err(_) => format!("cannot connect to {server_name}: no reply within {TIMEOUT:?}"),
        })
    }
}

/// Server that is connected to.
struct Server<'c> {
    peer: Peer<'c>,
    /// Host that the file names.
    host: String,
    port: u16,
    connect_timeout: Duration,
}

/// Way to a server.
enum Peer<'c> {
    /// Registry, or another server of the gateway itself. `httpclient.proxy` does not apply.
    Own(Origin),
    /// Upstream.
    Upstream(Origin),
    /// Upstreams at a name in DNS.
    Name { query: &'c DnsQuery, scheme: Option<Scheme>, tls: &'c Arc<Tls>, http2: Http2 },
}

/// Servers of a configuration, each once.
#[derive(Default)]
struct Servers<'c> {
    list: Vec<Server<'c>>,
    seen: HashSet<Origin>,
    seen_names: HashSet<&'c str>,
}

impl<'c> Servers<'c> {
    /// Returns the targets of the routes, the registries, the server of JSON Web Keys, the collector of traces, and the ACME
    /// server.
    fn of(config: &'c Config) -> Self {
        let mut servers = Self::default();
        config.routes.iter().for_each(|route| servers.add_route(route, &config.http_client));
        for registry in &config.registries {
            let (list, tls) = match registry {
                Registry::Consul(consul) => (std::slice::from_ref(&consul.server), &consul.tls),
                Registry::Eureka(eureka) => (eureka.servers.as_slice(), &eureka.tls),
                Registry::Nacos(nacos) => (nacos.servers.as_slice(), &nacos.tls),
                Registry::Kubernetes(kubernetes) => (std::slice::from_ref(&kubernetes.server), &kubernetes.tls),
            };
            let tls = Arc::new(tls.clone());
            list.iter().for_each(|server| servers.add_own(server.scheme, &server.host, server.port, &tls));
        }
        let directory = config.server.acme.as_ref().and_then(|acme| acme.directory().parse::<http::Uri>().ok());
        let collector = config.management.traces.as_ref().map(|traces| traces.endpoint.clone());
        #[cfg(feature = "jwt")]
        let keys = match config.jwt.as_ref().map(|jwt| &jwt.keys) {
            Some(KeySource::Server(uri)) => Some(uri.clone()),
            Some(KeySource::File(_)) | None => None,
        };
        #[cfg(not(feature = "jwt"))]
        let keys = None;
        for uri in [directory, collector, keys].into_iter().flatten() {
            let scheme = if uri.scheme_str() == Some("https") { Scheme::Https } else { Scheme::Http };
            let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
            servers.add_own(scheme, host, uri.port_u16().unwrap_or(scheme.default_port()), &Arc::default());
        }
        servers
    }

    fn add_route(&mut self, route: &'c Route, client: &'c HttpClient) {
        let (tls, http2) = (route.tls.as_ref().unwrap_or(&client.tls), route.http2.unwrap_or(client.http2.0));
        let connect_timeout = route.connect_timeout.unwrap_or(client.connect_timeout.get());
        let server = |peer, host: &str, port| Server { peer, host: host.to_owned(), port, connect_timeout };
        let mut add = |origin: Origin, host: &str, port| {
            if self.seen.insert(origin.clone()) {
                self.list.push(server(Peer::Upstream(origin), host, port));
            }
        };
        match &route.uri {
            Target::Http { scheme, host, port } => add(Origin::new(*scheme, host, *port, tls, http2), host, *port),
            Target::Balanced { upstream, scheme } => match &upstream.endpoints {
                EndpointSource::Listed(list) => list.iter().map(|endpoint| &endpoint.address).for_each(|address| {
                    add(endpoint_origin(address, *scheme, tls, http2), &address.host, address.port);
                }),
                EndpointSource::Dns(query) if self.seen_names.insert(&upstream.name) => {
                    let peer = Peer::Name { query, scheme: *scheme, tls, http2 };
                    self.list.push(server(peer, query.name(), query.port()));
                }
                EndpointSource::Dns(_) | EndpointSource::Registries(_) => {}
            },
            Target::Echo | Target::Forward(_) | Target::Nowhere => {}
        }
    }

    fn add_own(&mut self, scheme: Scheme, host: &str, port: u16, tls: &Arc<Tls>) {
        let peer = Peer::Own(Origin::new(scheme, host, port, tls, Http2::Off));
        self.list.push(Server { peer, host: host.to_owned(), port, connect_timeout: TIMEOUT });
    }
}
