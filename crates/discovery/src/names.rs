//! Names of the services that registries know, for `discovery.locator`.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

use tokio::sync::Notify;

/// Maximum number of names of one registry; further ones are dropped with a warning.
const MAX_NAMES: usize = 10_000;

/// Names of the services that registries know.
#[derive(Debug)]
pub(super) struct ServiceNames {
    lists: RefCell<Vec<Option<BTreeSet<String>>>>,
    changed: Notify,
}

/// Receiver of the names that one registry knows.
#[derive(Clone, Debug)]
pub(super) struct NamesSink {
    names: Rc<ServiceNames>,
    registry: usize,
}

impl ServiceNames {
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
        let mut names = lists.iter().flatten().peekable();
        names.peek()?;
        Some(names.flatten().cloned().collect())
    }
}

impl NamesSink {
    /// Creates the receiver of the registry at `registry`.
    pub(super) fn new(names: &Rc<ServiceNames>, registry: usize) -> Self {
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
