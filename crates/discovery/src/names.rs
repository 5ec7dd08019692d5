//! Names of the services that registries know, and the metadata of their instances, for `discovery.locator`.

use std::any::Any;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fmt;
use std::rc::Rc;

use tokio::sync::Notify;

use crate::Registries;
use crate::metadata::InstanceMetadata;
use crate::task::Watch;
use tollgate_config::Services;

/// Largest number of names of one registry; further ones are dropped with a warning.
const MAX_NAMES: usize = 10_000;

/// Names of the services that registries know.
#[derive(Debug)]
pub(super) struct Names {
    lists: RefCell<Vec<Option<BTreeSet<String>>>>,
    changed: Notify,
}

/// Receiver of the names that one registry knows.
#[derive(Clone, Debug)]
pub(super) struct NamesSink {
    names: Rc<Names>,
    registry: usize,
}

/// Watches of the names of services. They end when this is dropped.
pub struct NamesSubscription {
    names: Rc<Names>,
    metadata: Option<Rc<InstanceMetadata>>,
    _watches: Vec<Box<dyn Any>>,
    _metadata: Option<Watch>,
}

impl Names {
    pub(super) fn new(registries: usize) -> Rc<Self> {
        Rc::new(Self { lists: RefCell::new(vec![None; registries]), changed: Notify::new() })
    }

    /// Waits until the names have changed.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Returns all names; `None` before a registry has responded.
    pub(super) fn all(&self) -> Option<BTreeSet<String>> {
        let lists = self.lists.borrow();
        let mut known = lists.iter().flatten().peekable();
        known.peek()?;
        Some(known.flatten().cloned().collect())
    }
}

impl NamesSink {
    /// Creates the receiver of the registry at `registry`.
    pub(super) fn new(names: &Rc<Names>, registry: usize) -> Self {
        Self { names: Rc::clone(names), registry }
    }

    /// Publishes all names that the registry knows.
    pub(super) fn publish(&self, names: impl IntoIterator<Item = String>) {
        let mut names = names.into_iter();
        let kept = names.by_ref().take(MAX_NAMES).collect();
        let is_cut = names.next().is_some();
        let mut lists = self.names.lists.borrow_mut();
        if lists[self.registry].as_ref() != Some(&kept) {
            if is_cut {
                tracing::warn!(kept = MAX_NAMES, "a registry has too many services: the others get no routes");
            }
            lists[self.registry] = Some(kept);
            self.names.changed.notify_one();
        }
    }
}

impl NamesSubscription {
    /// Creates a subscription. `registries` are those in which the instances of each service are followed, on the current set
    /// of local tasks.
    pub(super) fn new(names: Rc<Names>, watches: Vec<Box<dyn Any>>, registries: Option<Registries>) -> Self {
        let metadata = registries.as_ref().map(|_| Rc::<InstanceMetadata>::default());
        let follow =
            |(registries, metadata)| Watch::start(InstanceMetadata::follow(metadata, Rc::clone(&names), registries));
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
