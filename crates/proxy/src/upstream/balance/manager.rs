//! Discovery, health checks and ejections of all upstreams, on the process' thread. Their state outlives every
//! configuration.

use std::any::Any;
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::num::NonZeroUsize;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until, timeout};

use crate::upstream::balance::dns;
use crate::upstream::balance::endpoint_set::Health;
use crate::upstream::balance::health::{self, ProbeConnections};
use crate::upstream::balance::located_services::LocatedServices;
use crate::upstream::balance::upstream::{RegistrySource, Upstream, Upstreams};
use crate::upstream::pool::PoolSettings;
use tollgate_config::{Config, Dns, EndpointSource, ListedEndpoint, Route, ServiceQuery, Services, Target};
use tollgate_discovery::{Follower, Instance, Registries, RegistryStatus};
use tollgate_transport::executor::OwnedTask;

/// Upstreams that are applied at once, so that other tasks of the thread do not wait.
const UPSTREAMS_PER_TURN: usize = 64;

/// Maximum time that the first lookups may delay a start or a reload.
const FIRST_LOOKUP_TIMEOUT: Duration = Duration::from_secs(1);

/// Manager of the upstreams in the running configuration.
#[derive(Debug)]
pub struct UpstreamManager {
    upstreams: Arc<Upstreams>,
    running: BTreeMap<Arc<str>, ManagedUpstream>,
    located: LocatedServices,
    /// Services of a configuration that is not applied before a registry responds.
    awaited: Option<LocatedServices>,
    services: Services,
    settings: Rc<RefCell<PoolSettings>>,
}

/// Upstream with its tasks and the settings they were started with.
#[derive(Debug)]
struct ManagedUpstream {
    config: Arc<tollgate_config::Upstream>,
    dns: Dns,
    connections: ProbeConnections,
    _tasks: Vec<Box<dyn Any>>,
}

impl UpstreamManager {
    /// Creates a manager without upstreams.
    pub fn new(upstreams: Arc<Upstreams>) -> Self {
        Self {
            upstreams,
            running: BTreeMap::new(),
            located: LocatedServices::default(),
            awaited: None,
            services: Services::new(),
            settings: Rc::default(),
        }
    }

    /// Applies `config`: starts, keeps or stops the tasks of its upstreams on the current set of local tasks. Endpoints
    /// that remain keep their state.
    ///
    /// Waits at most a second for the first DNS lookup or answer of a registry for an upstream without endpoints, so that its first requests are
    /// not refused.
    pub async fn apply(&mut self, config: &Config) {
        let client = &config.http_client;
        let settings = PoolSettings::for_worker(client, 0, NonZeroUsize::MIN);
        *self.settings.borrow_mut() = PoolSettings { max_idle: 0, max_connections: None, ..settings };
        let mut before = std::mem::take(&mut self.running);
        let has_same_registries = self.located.registries.are(&config.registries);
        let awaited = self.awaited.take().filter(|awaited| awaited.fit(config));
        let has_new_services = !self.located.fit(config);
        if has_new_services {
            self.located = awaited.unwrap_or_else(|| LocatedServices::new(config, &self.located.registries));
            self.upstreams.set_registries(self.located.registries.statuses());
        }
        let mut first_lookups = Vec::new();
        let routes = first_routes(config);
        for (number, wanted) in config.upstreams.iter().enumerate() {
            if number % UPSTREAMS_PER_TURN == UPSTREAMS_PER_TURN - 1 {
                tokio::task::yield_now().await;
            }
            let connections = self.probe_connections(routes.get(&*wanted.name).copied(), config);
            let kept = before.remove(&wanted.name).filter(|old| {
                let has_same_source = match &wanted.endpoints {
                    EndpointSource::Listed(_) => true,
                    EndpointSource::Dns(_) => old.dns == config.dns,
                    EndpointSource::Registries(_) => has_same_registries,
                };
                let ProbeConnections { tls, http2, .. } = &connections;
                old.config == *wanted
                    && has_same_source
                    && (&old.connections.tls, &old.connections.http2) == (tls, http2)
            });
            let running = kept.unwrap_or_else(|| {
                let upstream = self.upstreams.get(&wanted.name);
                let (tasks, first_lookup) =
                    start(&upstream, wanted, (&config.dns, &self.located.registries), &connections);
                first_lookups.extend(first_lookup.filter(|_| upstream.endpoints().is_empty()));
                ManagedUpstream { config: Arc::clone(wanted), dns: config.dns.clone(), connections, _tasks: tasks }
            });
            self.running.insert(Arc::clone(&wanted.name), running);
        }
        self.upstreams.retain(|name| self.running.contains_key(name));
        let all = async {
            for first_lookup in first_lookups {
                let _ = first_lookup.await;
            }
            if has_new_services && self.services.is_empty() && self.located.are_unknown() {
                self.located.changed().await;
            }
        };
        let _ = timeout(FIRST_LOOKUP_TIMEOUT, all).await;
    }

    /// Waits until the services in the registries have changed. Without `discovery.locator` it waits for ever.
    pub async fn services_changed(&self) {
        self.located.changed().await;
    }

    /// Returns the services in the registries: the last known ones until a registry has responded.
    pub fn services(&mut self) -> &Services {
        if let Some(services) = self.located.all() {
            self.services = services;
        }
        &self.services
    }

    /// Returns the services for `config`, which is not applied yet. Waits at most a second for the first response of a registry.
    ///
    /// # Errors
    /// No registry has responded; the text describes them. [`awaited_services`](Self::awaited_services) tells when one does.
    pub async fn services_for(&mut self, config: &Config) -> Result<Services, String> {
        let awaited = self.awaited.take().filter(|awaited| awaited.fit(config));
        let awaited =
            self.awaited.insert(awaited.unwrap_or_else(|| LocatedServices::new(config, &self.located.registries)));
        if awaited.are_unknown() {
            let _ = timeout(FIRST_LOOKUP_TIMEOUT, awaited.changed()).await;
        }
        awaited.all().ok_or_else(|| awaited.describe())
    }

    /// Waits until the services of a configuration that was not applied for want of them have changed.
    pub async fn awaited_services(&self) {
        match &self.awaited {
            Some(awaited) => awaited.changed().await,
            None => std::future::pending().await,
        }
    }

    /// Waits no more for services of a configuration that is not applied.
    pub fn await_no_services(&mut self) {
        self.awaited = None;
    }

    /// Returns the connection settings for health checks: those of the first `route` to the upstream.
    fn probe_connections(&self, route: Option<&Route>, config: &Config) -> ProbeConnections {
        let client = &config.http_client;
        ProbeConnections {
            tls: Arc::clone(route.and_then(|route| route.tls.as_ref()).unwrap_or(&client.tls)),
            http2: route.and_then(|route| route.http2).unwrap_or(client.http2.0),
            settings: Rc::clone(&self.settings),
        }
    }
}

/// Returns the first route to each upstream.
fn first_routes(config: &Config) -> HashMap<&str, &Route> {
    let mut first = HashMap::new();
    for route in &config.routes {
        if let Target::Balanced { upstream, .. } = &route.uri {
            first.entry(&*upstream.name).or_insert(route);
        }
    }
    first
}

/// Starts the tasks and subscriptions of an upstream. The receiver completes after the first lookup, if there is one.
fn start(
    upstream: &Arc<Upstream>,
    config: &tollgate_config::Upstream,
    (dns, registries): (&Dns, &Registries),
    connections: &ProbeConnections,
) -> (Vec<Box<dyn Any>>, Option<oneshot::Receiver<()>>) {
    let mut tasks: Vec<Box<dyn Any>> = vec![Box::new(OwnedTask::start(end_expired(Arc::clone(upstream))))];
    let mut first_lookup = None;
    upstream.set_slow_start(config.slow_start);
    match &config.endpoints {
        EndpointSource::Listed(list) => {
            upstream.set_source(None);
            upstream.list(list);
        }
        EndpointSource::Dns(query) => {
            upstream.set_source(None);
            let (attempted, first) = oneshot::channel();
            first_lookup = Some(first);
            let lookups = dns::run(Arc::clone(upstream), query.clone(), dns.clone(), attempted);
            tasks.push(Box::new(OwnedTask::start(lookups)));
        }
        EndpointSource::Registries(query) => {
            let follower = UpstreamFollower::new(Arc::clone(upstream), query);
            let (followed, first) = registries.follow(&query.service, Box::new(follower));
            first_lookup = Some(first);
            tasks.push(Box::new(followed));
        }
    }
    match &config.health {
        Some(check) => {
            let checks = health::run(Arc::clone(upstream), Arc::new(check.clone()), connections.clone());
            tasks.push(Box::new(OwnedTask::start(checks)));
        }
        None => upstream.endpoints().iter().for_each(|endpoint| upstream.set_health(endpoint, Health::Unknown)),
    }
    if config.ejection.is_none() {
        upstream.clear_ejections();
    }
    (tasks, first_lookup)
}

/// Ends each ejection and drain when it expires.
async fn end_expired(upstream: Arc<Upstream>) {
    loop {
        let next = upstream.end_expired();
        let expired = async {
            match next {
                Some(at) => sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = expired => {}
            () = upstream.expiring.notified() => {}
        }
    }
}

/// Upstream whose endpoints are the instances of a service.
#[derive(Debug)]
struct UpstreamFollower {
    upstream: Arc<Upstream>,
    weighted: bool,
    zone: Option<String>,
}

impl UpstreamFollower {
    /// Creates a follower that applies the weights and the zone of `query`.
    fn new(upstream: Arc<Upstream>, query: &ServiceQuery) -> Self {
        Self { upstream, weighted: query.weighted, zone: query.zone.clone() }
    }

    fn endpoint(&self, instance: &Instance) -> ListedEndpoint {
        let is_elsewhere = self.zone.as_ref().is_some_and(|zone| instance.zone.as_ref() != Some(zone));
        ListedEndpoint {
            address: instance.address.clone(),
            weight: if self.weighted { instance.metadata_weight() } else { instance.weight },
            priority: u16::from(is_elsewhere),
        }
    }
}

impl Follower for UpstreamFollower {
    fn list(&self, registry: &Arc<RegistryStatus>, instances: &[Instance]) {
        let listed: Vec<_> = instances.iter().map(|instance| self.endpoint(instance)).collect();
        self.upstream.set_source(Some(RegistrySource {
            registry: Arc::clone(registry),
            confirmed: Instant::now(),
            instances: instances.into(),
        }));
        self.upstream.list(&listed);
    }

    fn confirm(&self) {
        self.upstream.confirm_source();
    }
}
