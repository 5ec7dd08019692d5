//! Kubernetes: a list of the EndpointSlices of each namespace, then a watch of their changes.
//!
//! A watch ends after a minute and is resumed at the version of its last event or bookmark. So a connection that was lost
//! without an error is noticed. If the server no longer knows that version (410), the list is read again. Until then the
//! known endpoints stay in use.

pub(super) mod read;
mod requests;
mod table;

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use tokio::time::{Instant, sleep, sleep_until};

use self::read::Event;
use self::table::SliceTable;
use crate::Registry;
use crate::client::{Call, HttpClient, RegistryError, encoded, retry_after};
use crate::names::NamesSink;
use crate::service::{InstanceSink, Subscribers};
use crate::status::RegistryStatus;
use tollgate_config::Kubernetes;
use tollgate_transport::executor::OwnedTask;
use tollgate_transport::small_client::CallError;

/// Timeout for the head of the response to a watch.
const WATCH_TIMEOUT: Duration = Duration::from_secs(10);
/// Time after which the server ends a watch.
const WATCH_LIFE: Duration = Duration::from_secs(60);
/// Time in addition to [`WATCH_LIFE`] after which a silent watch counts as lost.
const GRACE: Duration = Duration::from_secs(10);
/// Minimum duration of a watch that is resumed after its end. After a shorter one, the list is read again.
const SHORT_WATCH: Duration = Duration::from_secs(1);
/// Minimum time between two lists of a namespace.
const LIST_INTERVAL: Duration = Duration::from_secs(1);
/// Maximum number of EndpointSlices that are kept.
const MAX_SLICES: usize = 50_000;

/// Kubernetes.
#[derive(Debug)]
pub(super) struct KubernetesRegistry {
    shared: Rc<KubernetesState>,
    _watches: Vec<OwnedTask>,
}

/// State of the watches, and their users.
#[derive(Debug)]
struct KubernetesState {
    settings: Kubernetes,
    client: HttpClient,
    table: RefCell<SliceTable>,
    /// Namespaces whose list has been read.
    listed: RefCell<BTreeSet<String>>,
    subscribers: Subscribers,
    status: Arc<RegistryStatus>,
}

impl KubernetesRegistry {
    /// Creates the registry, and watches its namespaces on the current set of local tasks.
    pub(super) fn new(settings: &Kubernetes) -> Self {
        let shared = Rc::new(KubernetesState {
            client: HttpClient::new(&settings.server, &settings.tls),
            table: RefCell::default(),
            listed: RefCell::default(),
            subscribers: Subscribers::default(),
            status: Arc::new(RegistryStatus::new("kubernetes", settings.server.to_string())),
            settings: settings.clone(),
        });
        let watch = |namespace: &String| OwnedTask::start(follow(Rc::clone(&shared), namespace.clone()));
        Self { _watches: settings.namespaces.iter().map(watch).collect(), shared }
    }
}

impl Registry for KubernetesRegistry {
    fn status(&self) -> &Arc<RegistryStatus> {
        &self.shared.status
    }

    fn watch(&self, name: &str, sink: InstanceSink) -> Box<dyn Any> {
        self.shared.publish_to(name, &sink);
        self.shared.subscribers.add(name, sink)
    }

    fn watch_names(&self, sink: NamesSink) -> Box<dyn Any> {
        if self.shared.has_all() {
            sink.publish(self.shared.table.borrow().names());
        }
        self.shared.subscribers.add_names(sink)
    }
}

/// Keeps the slices of a namespace up to date.
async fn follow(shared: Rc<KubernetesState>, namespace: String) {
    let mut version: Option<String> = None;
    let mut listed: Option<Instant> = None;
    // Failures since the last watch that the server accepted.
    let failures = Cell::new(0);
    loop {
        let began = Instant::now();
        let outcome = match &mut version {
            None => {
                if let Some(listed) = listed.replace(began) {
                    sleep_until(listed + LIST_INTERVAL).await;
                }
                shared.list(&namespace).await.map(Some)
            }
            Some(version) => {
                let followed = shared.follow_changes(&namespace, version, &failures).await;
                // A watch that ends at once may come from a server without watches: the next round lists everything again.
                let is_resumed = began.elapsed() >= SHORT_WATCH;
                followed.map(|is_known| (is_known && is_resumed).then(|| version.clone()))
            }
        };
        match outcome {
            Ok(next) => {
                shared.status.succeed();
                version = next;
            }
            Err(error) => {
                let request = if namespace.is_empty() { "all namespaces" } else { namespace.as_str() };
                shared.status.fail(request, &error);
                // After a lost connection, the watch resumes at its last version. After other errors, events may be missing.
                let is_lost = matches!(&error, RegistryError::Client(error) if !matches!(error, CallError::Status(_)));
                if !is_lost && !matches!(error, RegistryError::TokenFile(..)) {
                    version = None;
                }
                sleep(retry_after(failures.get())).await;
                failures.set(failures.get() + 1);
            }
        }
    }
}

impl KubernetesState {
    /// Returns true once the lists of all namespaces have been read.
    fn has_all(&self) -> bool {
        self.listed.borrow().len() == self.settings.namespaces.len()
    }

    /// Applies changes since `version`, which follows them, until the server ends the watch. Returns false if it no longer
    /// knows that version.
    async fn follow_changes(
        &self,
        namespace: &str,
        version: &mut String,
        failures: &Cell<u32>,
    ) -> Result<bool, RegistryError> {
        let life = WATCH_LIFE.as_secs();
        let encoded = encoded(version);
        let target = format!(
            "{}&watch=1&allowWatchBookmarks=true&timeoutSeconds={life}&resourceVersion={encoded}",
            self.target(namespace)
        );
        let headers = self.headers().await?;
        let mut lines = match self.client.lines(&Call::get(&target, WATCH_TIMEOUT).headers(&headers)).await {
            Err(CallError::Status(StatusCode::GONE)) => return Ok(false),
            lines => lines?,
        };
        self.status.succeed();
        failures.set(0);
        while let Some(batch) = lines.next(WATCH_LIFE + GRACE).await? {
            let mut changed = BTreeSet::new();
            let mut outcome = Ok(());
            for line in batch {
                match read::event(&line, &self.settings) {
                    Ok(Event::Gone) => {
                        self.publish(Some(&changed));
                        return Ok(false);
                    }
                    Ok(event) => self.apply(event, version, &mut changed),
                    Err(error) => {
                        outcome = Err(error);
                        break;
                    }
                }
            }
            self.publish(Some(&changed));
            outcome?;
            if self.table.borrow().len() > MAX_SLICES {
                return Err(RegistryError::TooMany(MAX_SLICES));
            }
            self.status.succeed();
        }
        Ok(true)
    }

    /// Applies an event; adds the services that it concerns to `changed`.
    fn apply(&self, event: Event, version: &mut String, changed: &mut BTreeSet<String>) {
        let mut table = self.table.borrow_mut();
        match event {
            Event::Changed(next, key, slice) => {
                self.ignore(&key, &slice);
                changed.extend(table.insert(key, slice));
                *version = next;
            }
            Event::Removed(next, key) => {
                self.status.ignore(&format!("{}/{}", key.0, key.1), None);
                changed.extend(table.remove(&key));
                *version = next;
            }
            Event::Bookmark(next) => *version = next,
            Event::Unusable(slice, ignored) => self.status.ignore(&slice, Some(ignored)),
            Event::Gone => {}
        }
    }

    /// Publishes the instances of the `changed` services, or of all; confirms the others.
    fn publish(&self, changed: Option<&BTreeSet<String>>) {
        if self.has_all() && changed.is_none_or(|changed| !changed.is_empty()) {
            self.subscribers.of_names(|sink| sink.publish(self.table.borrow().names()));
        }
        let has_changed = |name: &str| changed.is_none_or(|changed| changed.contains(&name.to_lowercase()));
        self.subscribers.of_services(has_changed, |name, sink| self.publish_to(name, sink));
    }

    /// Publishes the instances of a service. Without any, another namespace may know some.
    fn publish_to(&self, name: &str, sink: &InstanceSink) {
        let instances = self.table.borrow().instances(name, self.settings.discovery.include_not_ready_addresses.get());
        if self.has_all() || !instances.is_empty() {
            sink.publish(instances);
        }
    }
}
