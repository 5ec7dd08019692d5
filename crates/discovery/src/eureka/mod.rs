//! Eureka: the whole registry at first, then its changes, from one of several servers.
//!
//! After each change, the counts of instances by status are compared with those of the server (`apps__hashcode`). If they
//! differ, the whole registry is fetched again. After a failure, the next server is used.

pub(super) mod applications;

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use tokio::time::{Instant, sleep};

use self::applications::{Applications, EurekaTable};
use crate::Registry;
use crate::client::{Call, HttpClient, RegistryError, retry_after};
use crate::names::NamesSink;
use crate::service::{InstanceSink, Subscribers};
use crate::status::RegistryStatus;
use tollgate_transport::executor::OwnedTask;

/// Maximum time since the last response for which fetching the changes is sufficient. A server keeps changes for three
/// minutes.
const DELTA_WINDOW: Duration = Duration::from_secs(120);

/// Eureka.
#[derive(Debug)]
pub(super) struct EurekaRegistry {
    shared: Rc<EurekaState>,
    _fetches: OwnedTask,
}

/// State of the fetches, and their users.
#[derive(Debug)]
struct EurekaState {
    settings: tollgate_config::Eureka,
    clients: Vec<HttpClient>,
    /// Server that responded last.
    current: Cell<usize>,
    /// Time of the last response; `None`: the whole registry is fetched.
    fetched: Cell<Option<Instant>>,
    table: RefCell<EurekaTable>,
    subscribers: Subscribers,
    status: Arc<RegistryStatus>,
}

impl EurekaRegistry {
    /// Creates the registry, and fetches it on the current set of local tasks.
    pub(super) fn new(settings: &tollgate_config::Eureka) -> Self {
        let servers: Vec<_> = settings.servers.iter().map(ToString::to_string).collect();
        let shared = Rc::new(EurekaState {
            settings: settings.clone(),
            clients: settings.servers.iter().map(|server| HttpClient::new(server, &settings.tls)).collect(),
            current: Cell::new(0),
            fetched: Cell::new(None),
            table: RefCell::default(),
            subscribers: Subscribers::default(),
            status: Arc::new(RegistryStatus::new("eureka", servers.join(","))),
        });
        let fetches = OwnedTask::start(fetch_repeatedly(Rc::clone(&shared)));
        Self { shared, _fetches: fetches }
    }
}

impl Registry for EurekaRegistry {
    fn status(&self) -> &Arc<RegistryStatus> {
        &self.shared.status
    }

    fn watch(&self, name: &str, sink: InstanceSink) -> Box<dyn Any> {
        let shared = &self.shared;
        if shared.fetched.get().is_some() {
            sink.publish(shared.table.borrow().instances(name, shared.settings.client.filter_only_up_instances.get()));
        }
        shared.subscribers.add(name, sink)
    }

    fn watch_names(&self, sink: NamesSink) -> Box<dyn Any> {
        let shared = &self.shared;
        if shared.fetched.get().is_some() {
            sink.publish(shared.table.borrow().names());
        }
        shared.subscribers.add_names(sink)
    }
}

async fn fetch_repeatedly(shared: Rc<EurekaState>) {
    let mut failures = 0;
    loop {
        let pause = if shared.fetch_from_any().await {
            failures = 0;
            shared.settings.client.interval()
        } else {
            failures += 1;
            retry_after(failures - 1).min(shared.settings.client.interval())
        };
        sleep(pause).await;
    }
}

impl EurekaState {
    /// Fetches from the current server, or from the next one that responds. Returns false if none does.
    async fn fetch_from_any(&self) -> bool {
        for _ in 0..self.clients.len() {
            let client = &self.clients[self.current.get()];
            match self.fetch(client).await {
                Ok(has_changed) => {
                    self.fetched.set(Some(Instant::now()));
                    self.status.succeed();
                    // An unchanged table too: the lines of a long list take several intervals.
                    let server = self.settings.servers[self.current.get()].to_string();
                    self.status.ignore_all(&server, self.table.borrow().ignored());
                    self.publish(has_changed);
                    return true;
                }
                Err(error) => {
                    self.status.fail(&self.settings.servers[self.current.get()].to_string(), &error);
                    // Another server may have other changes.
                    self.fetched.set(None);
                    self.current.set((self.current.get() + 1) % self.clients.len());
                }
            }
        }
        false
    }

    /// Returns true if the table has changed.
    async fn fetch(&self, client: &HttpClient) -> Result<bool, RegistryError> {
        let is_recent = self.fetched.get().is_some_and(|at| at.elapsed() < DELTA_WINDOW);
        if !self.settings.client.disable_delta.get() && is_recent {
            let call = Call::get("/apps/delta", self.settings.client.timeout());
            let reply = client.send(&call).await?;
            // A server may offer no changes.
            if ![StatusCode::FORBIDDEN, StatusCode::NOT_FOUND].contains(&reply.status) {
                let changes = Applications::read(&reply.ok()?)?;
                let hash = changes.hash.clone();
                let is_empty = changes.entries.is_empty();
                let mut table = self.table.borrow().clone();
                table.change(changes);
                if hash.is_some_and(|hash| hash == table.hash()) {
                    *self.table.borrow_mut() = table;
                    return Ok(!is_empty);
                }
                tracing::debug!(registry = "eureka", "changes are incomplete, fetching the whole registry");
            }
        }
        let reply = client.send(&Call::get("/apps/", self.settings.client.timeout())).await?;
        let all = Applications::read(&reply.ok()?)?;
        *self.table.borrow_mut() = EurekaTable::of(all)?;
        Ok(true)
    }

    fn publish(&self, has_changed: bool) {
        self.subscribers.of_names(|sink| sink.publish(self.table.borrow().names()));
        self.subscribers.of_services(
            |_| has_changed,
            |name, sink| {
                sink.publish(self.table.borrow().instances(name, self.settings.client.filter_only_up_instances.get()))
            },
        );
    }
}
