//! Lists of one service, from all registries of a file, and the sinks of registries that read all services together.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::{Rc, Weak};
use std::sync::Arc;

use tokio::sync::oneshot;

use crate::names::NamesSink;
use crate::{Instance, RegistryStatus};

/// Maximum number of instances of a service.
const MAX_INSTANCES: usize = 10_000;

/// Receiver of the instances of one service, in the program that uses this crate.
pub trait Follower: fmt::Debug {
    /// Takes the complete list of instances, which `registry` has reported. It replaces the previous list.
    fn list(&self, registry: &Arc<RegistryStatus>, instances: &[Instance]);

    /// Confirms that the last list is still valid.
    fn confirm(&self);
}

/// Watches of one service. They end when this is dropped.
#[derive(Debug)]
pub struct Subscriptions {
    pub(super) _watches: Vec<Box<dyn Any>>,
}

/// Service with the last list of each registry.
#[derive(Debug)]
pub(super) struct Service {
    lists: RefCell<Vec<Option<Vec<Instance>>>>,
    follower: Box<dyn Follower>,
    /// Registry whose list is in use.
    source: Cell<Option<usize>>,
    responded: RefCell<Option<oneshot::Sender<()>>>,
    statuses: Vec<Arc<RegistryStatus>>,
}

/// Receiver of the lists of one service from one registry.
#[derive(Clone, Debug)]
pub(super) struct InstanceSink {
    service: Rc<Service>,
    registry: usize,
}

impl Service {
    /// Creates a service without lists. The receiver completes when a registry knows an instance, or when all registries
    /// have responded.
    pub(super) fn new(
        statuses: Vec<Arc<RegistryStatus>>,
        follower: Box<dyn Follower>,
    ) -> (Rc<Self>, oneshot::Receiver<()>) {
        let (responded, first) = oneshot::channel();
        let (lists, source) = (RefCell::new(vec![None; statuses.len()]), Cell::new(None));
        (Rc::new(Self { lists, follower, source, responded: RefCell::new(Some(responded)), statuses }), first)
    }

    /// Returns the position of the first registry that knows instances.
    fn first(&self) -> Option<usize> {
        self.lists.borrow().iter().position(|list| list.as_ref().is_some_and(|list| !list.is_empty()))
    }

    fn all_responded(&self) -> bool {
        self.lists.borrow().iter().all(Option::is_some)
    }
}

impl InstanceSink {
    /// Creates the receiver of the registry at `registry`.
    pub(super) fn new(service: &Rc<Service>, registry: usize) -> Self {
        Self { service: Rc::clone(service), registry }
    }

    /// Returns true after the first list.
    fn has_published(&self) -> bool {
        self.service.lists.borrow()[self.registry].is_some()
    }

    /// Publishes the complete list of instances that the registry knows. The follower gets at most [`MAX_INSTANCES`], and
    /// only if no earlier registry knows instances.
    pub(super) fn publish(&self, mut instances: Vec<Instance>) {
        let service = &self.service;
        if instances.len() > MAX_INSTANCES {
            let registry = service.statuses[self.registry].kind();
            tracing::warn!(
                registry,
                instances = instances.len(),
                used = MAX_INSTANCES,
                "too many instances of a service"
            );
            instances.truncate(MAX_INSTANCES);
        }
        let before = service.lists.borrow_mut()[self.registry].replace(instances);
        let first = service.first();
        let is_same = before == service.lists.borrow()[self.registry];
        match first {
            Some(first) if first == self.registry || service.source.get() != Some(first) => {
                if is_same && service.source.get() == Some(first) {
                    service.follower.confirm();
                } else {
                    service.source.set(Some(first));
                    let lists = service.lists.borrow();
                    service.follower.list(&service.statuses[first], lists[first].as_deref().unwrap_or_default());
                }
            }
            Some(_) => {}
            // After a reload, the list stays until all registries have responded: one of them may know the endpoints in use.
            None if service.source.get().is_some() || service.all_responded() => {
                service.source.set(None);
                service.follower.list(&service.statuses[self.registry], &[]);
            }
            None => {}
        }
        if (first.is_some() || service.all_responded())
            && let Some(responded) = service.responded.borrow_mut().take()
        {
            let _ = responded.send(());
        }
    }

    /// Confirms the list published last.
    pub(super) fn confirm(&self) {
        if self.service.source.get().is_none_or(|source| source == self.registry) {
            self.service.follower.confirm();
        }
    }
}

/// Sinks of a registry. Each one is subscribed until the value that is returned for it is dropped.
#[derive(Debug, Default)]
pub(super) struct Subscribers {
    services: RefCell<Vec<Weak<(String, InstanceSink)>>>,
    names: RefCell<Vec<Weak<NamesSink>>>,
}

impl Subscribers {
    /// Subscribes to the service `name`.
    pub(super) fn add(&self, name: &str, sink: InstanceSink) -> Box<dyn Any> {
        subscribe(&self.services, (name.to_owned(), sink))
    }

    /// Subscribes to the names of all services.
    pub(super) fn add_names(&self, sink: NamesSink) -> Box<dyn Any> {
        subscribe(&self.names, sink)
    }

    /// Calls `publish` for each subscriber of the names.
    pub(super) fn of_names(&self, publish: impl Fn(&NamesSink)) {
        self.names.borrow().iter().filter_map(Weak::upgrade).for_each(|sink| publish(&sink));
    }

    /// Calls `publish` for each subscriber of a service that has changed, and for those without a list. Confirms the lists
    /// of the others.
    pub(super) fn of_services(&self, has_changed: impl Fn(&str) -> bool, publish: impl Fn(&str, &InstanceSink)) {
        // A copy, since subscribers may come while a sink publishes.
        let subscribers: Vec<_> = self.services.borrow().iter().filter_map(Weak::upgrade).collect();
        for (name, sink) in subscribers.iter().map(|subscriber| &**subscriber) {
            if has_changed(name) || !sink.has_published() {
                publish(name, sink);
            } else {
                sink.confirm();
            }
        }
    }
}

fn subscribe<T: 'static>(all: &RefCell<Vec<Weak<T>>>, subscriber: T) -> Box<dyn Any> {
    let subscriber = Rc::new(subscriber);
    let mut all = all.borrow_mut();
    all.retain(|other| other.strong_count() > 0);
    all.push(Rc::downgrade(&subscriber));
    Box::new(subscriber)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Seen(Rc<RefCell<Vec<String>>>);

    impl Follower for Seen {
        fn list(&self, registry: &Arc<RegistryStatus>, instances: &[Instance]) {
            let hosts: Vec<_> = instances.iter().map(|instance| instance.address.host.as_str()).collect();
            self.0.borrow_mut().push(format!("{} {}", registry.kind(), hosts.join(",")));
        }

        fn confirm(&self) {
            self.0.borrow_mut().push("same".to_owned());
        }
    }

    fn instances(hosts: &[&str]) -> Vec<Instance> {
        hosts.iter().map(|host| Instance::new(host, 80, false).unwrap()).collect()
    }

    /// Returns the receivers of two registries, and the record of what they caused.
    fn two() -> ([InstanceSink; 2], Rc<RefCell<Vec<String>>>, oneshot::Receiver<()>) {
        let seen = Rc::default();
        let statuses = ["one", "two"].map(|kind| Arc::new(RegistryStatus::new(kind, String::new())));
        let (service, first) = Service::new(statuses.into(), Box::new(Seen(Rc::clone(&seen))));
        ([0, 1].map(|at| InstanceSink::new(&service, at)), seen, first)
    }

    #[test]
    fn the_first_registry_that_knows_a_name_wins() {
        let ([one, two], seen, mut first) = two();
        two.publish(instances(&["b"]));
        assert!(first.try_recv().is_ok(), "one list is enough");
        one.publish(instances(&[]));
        two.publish(instances(&["b"]));
        one.publish(instances(&["a", "c"]));
        two.publish(instances(&["d"]));
        one.publish(instances(&[]));
        two.publish(instances(&[]));
        two.publish(instances(&["e"]));
        assert_eq!(*seen.borrow(), ["two b", "same", "one a,c", "two d", "two ", "two e"]);
    }

    #[test]
    fn a_list_is_empty_once_all_have_answered_or_the_known_one_has() {
        let ([one, two], seen, mut first) = super::tests::two();
        one.publish(instances(&[]));
        assert!(seen.borrow().is_empty() && first.try_recv().is_err(), "the other may know endpoints");
        two.publish(instances(&[]));
        assert!(first.try_recv().is_ok());
        assert_eq!(*seen.borrow(), ["two "]);
        let ([one, _two], seen, _first) = super::tests::two();
        one.publish(instances(&["a"]));
        one.publish(instances(&[]));
        assert_eq!(*seen.borrow(), ["one a", "one "], "the registry of these endpoints has removed them");
    }
}
