//! Metadata of the instances of all services, for a `discovery.locator` whose expressions depend on them.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::timeout;

use crate::names::ServiceNames;
use crate::{Follower, Instance, Registries, RegistryStatus, Subscriptions};
use tollgate_config::{MAX_LOCATED_SERVICES, Metadata, Services};

/// Time for the first lists of new services.
const FIRST_TIMEOUT: Duration = Duration::from_millis(800);

/// Metadata of the instances of all services.
#[derive(Debug, Default)]
pub(super) struct InstanceMetadata {
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
