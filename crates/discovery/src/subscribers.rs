//! Sinks of a registry that reads all services together: one for each watched service, and those for the names.

use std::any::Any;
use std::cell::RefCell;
use std::rc::{Rc, Weak};

use crate::names::NamesSink;
use crate::service::InstanceSink;

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
