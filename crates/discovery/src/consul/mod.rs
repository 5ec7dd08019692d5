//! Consul: a blocking query of `/v1/health/service/NAME` for each service.
//!
//! Consul holds a query open until the service changes, at most for `wait`. The index of a response goes into the next query,
//! as Consul's documentation requires: after an index lower than the previous one, the next query starts at 0. Repeated
//! failures slow the queries down.

pub(super) mod read;

use std::any::Any;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderName, HeaderValue};
use tokio::time::{Instant, sleep, sleep_until};

use crate::Registry;
use crate::client::{Call, HttpClient, RegistryError, encoded, retry_after};
use crate::instance::ReadError;
use crate::names::NamesSink;
use crate::service::InstanceSink;
use crate::status::RegistryStatus;
use tollgate_config::Consul;
use tollgate_transport::executor::OwnedTask;

const INDEX: HeaderName = HeaderName::from_static("x-consul-index");
const TOKEN: HeaderName = HeaderName::from_static("x-consul-token");

/// Timeout of a query, in addition to the time for which Consul may hold it open.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Minimum time between two queries of a service.
const MIN_INTERVAL: Duration = Duration::from_millis(100);
/// Minimum time between two queries of the names of all services.
const NAMES_INTERVAL: Duration = Duration::from_secs(1);
/// Minimum time after a response without an index: the next query then does not block.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Consul.
#[derive(Debug)]
pub(super) struct ConsulRegistry {
    settings: Rc<Consul>,
    client: Rc<HttpClient>,
    status: Arc<RegistryStatus>,
}

/// Blocking query.
struct Query {
    wait: Duration,
    /// Minimum time between two queries.
    interval: Duration,
    client: Rc<HttpClient>,
    /// Path and query, without index.
    target: String,
    headers: Vec<(HeaderName, HeaderValue)>,
}

impl ConsulRegistry {
    /// Creates the registry. It opens connections when services are watched.
    pub(super) fn new(settings: &Consul) -> Self {
        Self {
            client: Rc::new(HttpClient::new(&settings.server, &settings.tls)),
            status: Arc::new(RegistryStatus::new("consul", settings.server.to_string())),
            settings: Rc::new(settings.clone()),
        }
    }
}

impl Registry for ConsulRegistry {
    fn status(&self) -> &Arc<RegistryStatus> {
        &self.status
    }

    fn watch(&self, name: &str, sink: InstanceSink) -> Box<dyn Any> {
        let query = Query::instances(&self.settings, &self.client, name);
        let (zone_key, status) = (self.settings.discovery.zone_key().to_owned(), Arc::clone(&self.status));
        let (service, seen) = (name.to_owned(), Arc::clone(&self.status));
        let read = move |body: &[u8]| {
            let listed = read::instances(body, &service, &zone_key)?;
            seen.ignore(&service, listed.ignored);
            Ok(listed.instances)
        };
        let publish = move |instances| sink.publish(instances);
        Box::new(OwnedTask::start(follow(query, name.to_owned(), status, read, publish)))
    }

    fn watch_names(&self, sink: NamesSink) -> Box<dyn Any> {
        let query = Query::names(&self.settings, &self.client);
        let publish = move |names: BTreeSet<String>| sink.publish(names);
        Box::new(OwnedTask::start(follow(query, "services".to_owned(), Arc::clone(&self.status), read::names, publish)))
    }
}

/// Returns the header field with the access token.
pub(super) fn token(settings: &Consul) -> Vec<(HeaderName, HeaderValue)> {
    let token = settings.token().and_then(|token| HeaderValue::from_str(token).ok());
    token.map(|token| (TOKEN, token)).into_iter().collect()
}

/// Publishes the response to a query whenever it changes.
async fn follow<T>(
    query: Query,
    name: String,
    status: Arc<RegistryStatus>,
    read: impl Fn(&[u8]) -> Result<T, ReadError>,
    publish: impl Fn(T),
) {
    let mut index = 0;
    let mut failures = 0;
    loop {
        let began = Instant::now();
        let answer = query.send(index).await;
        match answer.and_then(|(next, body)| Ok((next, read(&body)?))) {
            Ok((next, answer)) => {
                status.succeed();
                failures = 0;
                // Published even if the index is equal: the server may have lost its data and numbered new data from the start.
                publish(answer);
                index = if next < index { 0 } else { next };
                sleep_until(began + if next == 0 { POLL_INTERVAL } else { query.interval }).await;
            }
            Err(error) => {
                status.fail(&name, &error);
                index = 0;
                sleep(retry_after(failures)).await;
                failures += 1;
            }
        }
    }
}

impl Query {
    /// Returns the query for the instances of the service `name`.
    fn instances(settings: &Consul, client: &Rc<HttpClient>, name: &str) -> Self {
        let discovery = &settings.discovery;
        let wait = discovery.wait.get().as_millis();
        let mut target = format!("/v1/health/service/{}?wait={wait}ms", encoded(name));
        if discovery.query_passing.get() {
            target.push_str("&passing=true");
        }
        // Writing to a String cannot fail.
        if let Some(tag) = discovery.tag(name) {
            let _ = write!(target, "&tag={}", encoded(tag));
        }
        if let Some(datacenter) = discovery.datacenter_of(name) {
            let _ = write!(target, "&dc={}", encoded(datacenter));
        }
        Self::new(settings, client, target, MIN_INTERVAL)
    }

    /// Returns the query for the names of all services.
    fn names(settings: &Consul, client: &Rc<HttpClient>) -> Self {
        let mut target = format!("/v1/catalog/services?wait={}ms", settings.discovery.wait.get().as_millis());
        if let Some(datacenter) = settings.discovery.datacenter.get() {
            let _ = write!(target, "&dc={}", encoded(datacenter));
        }
        Self::new(settings, client, target, NAMES_INTERVAL)
    }

    fn new(settings: &Consul, client: &Rc<HttpClient>, target: String, interval: Duration) -> Self {
        let wait = settings.discovery.wait.get();
        Self { wait, interval, client: Rc::clone(client), target, headers: token(settings) }
    }

    /// Sends the query and returns the index and the body of the response. With an `index` above 0, Consul responds when the
    /// data has changed since that index, or after `wait`.
    async fn send(&self, index: u64) -> Result<(u64, Bytes), RegistryError> {
        let (target, held) = match index {
            0 => (self.target.clone(), Duration::ZERO),
            // Consul adds up to a sixteenth of the wait at random.
            index => (format!("{}&index={index}", self.target), self.wait * 17 / 16),
        };
        // Not repeated on a new connection: the server may have been restarted, and its old index is then invalid.
        let call = Call { may_repeat: index == 0, ..Call::get(&target, TIMEOUT + held).headers(&self.headers) };
        let reply = self.client.send(&call).await?;
        let index = reply.headers.get(INDEX).and_then(|index| index.to_str().ok()?.parse().ok()).unwrap_or(0);
        Ok((index, reply.ok()?))
    }
}
