//! Registries of the running configuration, and the subscription to the services that they know, for `discovery.locator`. Locators
//! whose expressions depend on the metadata of instances follow it, too.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, oneshot};
use tokio::time::timeout;

use crate::consul::ConsulRegistry;
use crate::eureka::EurekaRegistry;
use crate::kubernetes::KubernetesRegistry;
use crate::nacos::{NacosClient, NacosRegistry};
use crate::names::{NamesSink, ServiceNames};
use crate::service::{InstanceSink, Service};
use crate::{Follower, Instance, Registry, RegistryStatus, Subscriptions};
use tollgate_config::{MAX_LOCATED_SERVICES, Metadata, Services};
use tollgate_transport::executor::OwnedTask;

/// Registries of the running configuration.
#[derive(Clone, Debug, Default)]
pub struct Registries {
    settings: Vec<tollgate_config::Registry>,
    registries: Vec<Rc<dyn Registry>>,
}

impl Registries {
    /// Creates the registries of a configuration, in its order.
    pub fn new(settings: &[tollgate_config::Registry]) -> Self {
        let registries = settings.iter().map(|settings| -> Rc<dyn Registry> {
            match settings {
                tollgate_config::Registry::Consul(settings) => Rc::new(ConsulRegistry::new(settings)),
                tollgate_config::Registry::Eureka(settings) => Rc::new(EurekaRegistry::new(settings)),
                tollgate_config::Registry::Nacos(settings) => {
                    Rc::new(NacosRegistry(Rc::new(NacosClient::new(settings))))
                }
                tollgate_config::Registry::Kubernetes(settings) => Rc::new(KubernetesRegistry::new(settings)),
            }
        });
        Self { registries: registries.collect(), settings: settings.to_vec() }
    }

    /// Returns true if these are the registries of `settings`.
    pub fn are(&self, settings: &[tollgate_config::Registry]) -> bool {
        self.settings == settings
    }

    /// Returns the states of the registries.
    pub fn statuses(&self) -> Vec<Arc<RegistryStatus>> {
        self.registries.iter().map(|registry| Arc::clone(registry.status())).collect()
    }

    /// Watches the names of all services, on the current set of local tasks, and the metadata of their instances if
    /// `with_metadata`.
    pub fn follow_names(&self, with_metadata: bool) -> NamesSubscription {
        let names = ServiceNames::new(self.registries.len());
        let watch = |(at, registry): (usize, &Rc<dyn Registry>)| registry.watch_names(NamesSink::new(&names, at));
        let watches = self.registries.iter().enumerate().map(watch).collect();
        let metadata = with_metadata.then(Rc::<InstanceMetadata>::default);
        let follow = |metadata| OwnedTask::start(InstanceMetadata::follow(metadata, Rc::clone(&names), self.clone()));
        let _metadata = metadata.clone().map(follow);
        NamesSubscription { names, metadata, _watches: watches, _metadata }
    }

    /// Watches the service `name` in all registries, on the current set of local tasks. The receiver completes when a registry
    /// knows an instance, or when all registries have responded.
    pub fn follow(&self, name: &str, follower: Box<dyn Follower>) -> (Subscriptions, oneshot::Receiver<()>) {
        let (service, first) = Service::new(self.statuses(), follower);
        let watch = |(at, registry): (usize, &Rc<dyn Registry>)| registry.watch(name, InstanceSink::new(&service, at));
        (Subscriptions { _watches: self.registries.iter().enumerate().map(watch).collect() }, first)
    }
}

/// Watches of the names of services. They end when this is dropped.
#[derive(Debug)]
pub struct NamesSubscription {
    names: Rc<ServiceNames>,
    metadata: Option<Rc<InstanceMetadata>>,
    _watches: Vec<Box<dyn Any>>,
    _metadata: Option<OwnedTask>,
}

impl NamesSubscription {
    /// Waits until the names, or the metadata if they are followed, have changed.
    pub async fn changed(&self) {
        match &self.metadata {
            Some(metadata) => metadata.changed().await,
            None => self.names.changed().await,
        }
    }

    /// Returns all services; `None` before a registry has responded.
    pub fn all(&self) -> Option<Services> {
        match &self.metadata {
            Some(metadata) => metadata.all(),
            None => Some(self.names.all()?.into_iter().map(|name| (name, Vec::new())).collect()),
        }
    }
}

/// Time for the first lists of new services.
const FIRST_TIMEOUT: Duration = Duration::from_millis(800);

/// Metadata of the instances of all services.
#[derive(Debug, Default)]
struct InstanceMetadata {
    services: RefCell<BTreeMap<String, FollowedService>>,
    /// True once the first services are known.
    is_complete: Cell<bool>,
    changed: Rc<Notify>,
}

/// Service with its watches.
#[derive(Debug)]
struct FollowedService {
    instances: Rc<RefCell<Vec<Metadata>>>,
    _subscriptions: Subscriptions,
}

/// Receiver of the instances of one service.
#[derive(Debug)]
struct MetadataFollower {
    instances: Rc<RefCell<Vec<Metadata>>>,
    changed: Rc<Notify>,
}

impl InstanceMetadata {
    /// Follows the services of `names` in `registries`.
    pub(super) async fn follow(metadata: Rc<Self>, names: Rc<ServiceNames>, registries: Registries) {
        loop {
            if let Some(all_names) = names.all() {
                let located: BTreeSet<String> = all_names.into_iter().take(MAX_LOCATED_SERVICES).collect();
                metadata.services.borrow_mut().retain(|name, _| located.contains(name));
                let mut first_lists = Vec::new();
                for name in located {
                    if metadata.services.borrow().contains_key(&name) {
                        continue;
                    }
                    let instances = Rc::<RefCell<Vec<Metadata>>>::default();
                    let follower =
                        MetadataFollower { instances: Rc::clone(&instances), changed: Rc::clone(&metadata.changed) };
                    let (_subscriptions, first) = registries.follow(&name, Box::new(follower));
                    first_lists.push(first);
                    metadata.services.borrow_mut().insert(name, FollowedService { instances, _subscriptions });
                }
                let all = async {
                    for first in first_lists {
                        let _ = first.await;
                    }
                };
                let _ = timeout(FIRST_TIMEOUT, all).await;
                metadata.is_complete.set(true);
                metadata.changed.notify_one();
            }
            names.changed().await;
        }
    }

    /// Waits until services or metadata have changed.
    pub(super) async fn changed(&self) {
        loop {
            self.changed.notified().await;
            if self.is_complete.get() {
                return;
            }
        }
    }

    /// Returns the services that have instances; `None` before a registry has responded.
    pub(super) fn all(&self) -> Option<Services> {
        let services = self.services.borrow();
        let services = services.iter().map(|(name, service)| (name.clone(), service.instances.borrow().clone()));
        self.is_complete.get().then(|| services.filter(|(_, instances)| !instances.is_empty()).collect())
    }
}

impl Follower for MetadataFollower {
    fn list(&self, _: &Arc<RegistryStatus>, instances: &[Instance]) {
        let metadata: Vec<Metadata> = instances.iter().map(|instance| instance.metadata.clone()).collect();
        if *self.instances.borrow() != metadata {
            *self.instances.borrow_mut() = metadata;
            self.changed.notify_one();
        }
    }

    fn confirm(&self) {}
}
