//! Subscription to the services that registries know, and to the metadata of their instances, for `discovery.locator`.

use std::any::Any;
use std::fmt;
use std::rc::Rc;

use crate::Registries;
use crate::metadata::InstanceMetadata;
use crate::names::Names;
use tollgate_config::Services;
use tollgate_transport::executor::OwnedTask;

/// Watches of the names of services. They end when this is dropped.
pub struct NamesSubscription {
    names: Rc<Names>,
    metadata: Option<Rc<InstanceMetadata>>,
    _watches: Vec<Box<dyn Any>>,
    _metadata: Option<OwnedTask>,
}

impl NamesSubscription {
    /// Creates a subscription. `registries` are those in which the instances of each service are followed, on the current set
    /// of local tasks.
    pub(super) fn new(names: Rc<Names>, watches: Vec<Box<dyn Any>>, registries: Option<Registries>) -> Self {
        let metadata = registries.as_ref().map(|_| Rc::<InstanceMetadata>::default());
        let follow = |(registries, metadata)| {
            OwnedTask::start(InstanceMetadata::follow(metadata, Rc::clone(&names), registries))
        };
        let _metadata = registries.zip(metadata.clone()).map(follow);
        Self { names, metadata, _watches: watches, _metadata }
    }

    /// Waits until the names, or the metadata if they are followed, have changed.
    pub async fn changed(&self) {
        match &self.metadata {
            Some(metadata) => metadata.changed().await,
            None => self.names.changed().await,
        }
    }

    /// Returns all services; `None` before a registry has responded.
    #[must_use]
    pub fn all(&self) -> Option<Services> {
        match &self.metadata {
            Some(metadata) => metadata.all(),
            None => Some(self.names.all()?.into_iter().map(|name| (name, Vec::new())).collect()),
        }
    }
}

impl fmt::Debug for NamesSubscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NamesSubscription").field("names", &self.names).finish_non_exhaustive()
    }
}
