//! Sinks of a registry that reads all services together: one for each watched service, and those for the names.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};

use crate::names::NamesSink;
use crate::service::Sink;

/// Users of a registry.
#[derive(Debug, Default)]
pub(super) struct Users {
    lists: Rc<Lists>,
}

#[derive(Debug, Default)]
struct Lists {
    services: RefCell<Vec<(u64, String, Sink)>>,
    names: RefCell<Vec<(u64, NamesSink)>>,
    last: Cell<u64>,
}

/// User of a registry, removed when this is dropped.
#[derive(Debug)]
struct User {
    lists: Weak<Lists>,
    number: u64,
}

impl Users {
    /// Adds a user of the service `name`, until the returned value is dropped.
    pub(super) fn add(&self, name: &str, sink: Sink) -> Box<dyn Any> {
        let user = self.next();
        self.lists.services.borrow_mut().push((user.number, name.to_owned(), sink));
        Box::new(user)
    }

    /// Adds a user of the names of all services, until the returned value is dropped.
    pub(super) fn add_names(&self, sink: NamesSink) -> Box<dyn Any> {
        let user = self.next();
        self.lists.names.borrow_mut().push((user.number, sink));
        Box::new(user)
    }

    /// Calls `publish` for each user of the names.
    pub(super) fn of_names(&self, publish: impl Fn(&NamesSink)) {
        self.lists.names.borrow().iter().for_each(|(_, sink)| publish(sink));
    }

    /// Returns the users of services: a copy, since users may come while a sink publishes.
    pub(super) fn of_services(&self) -> impl Iterator<Item = (String, Sink)> + use<> {
        let services = self.lists.services.borrow().clone();
        services.into_iter().map(|(_, name, sink)| (name, sink))
    }

    fn next(&self) -> User {
        self.lists.last.set(self.lists.last.get() + 1);
        User { lists: Rc::downgrade(&self.lists), number: self.lists.last.get() }
    }
}

impl Drop for User {
    fn drop(&mut self) {
        if let Some(lists) = self.lists.upgrade() {
            lists.services.borrow_mut().retain(|(number, ..)| *number != self.number);
            lists.names.borrow_mut().retain(|(number, _)| *number != self.number);
        }
    }
}
