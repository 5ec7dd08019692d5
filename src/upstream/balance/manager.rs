//! Keeps what is known of upstreams up to date, on the process' thread: state that outlives every configuration.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::task::{JoinHandle, spawn_local};
use tokio::time::{sleep_until, timeout};

use crate::upstream::balance::discovery;
use crate::upstream::balance::endpoint_set::Health;
use crate::upstream::balance::health;
use crate::upstream::balance::upstream::{Upstream, Upstreams};
use crate::upstream::pool::PoolSettings;
use tollgate_config::{Config, Dns, EndpointSource, Http2, Target, Tls};

/// How long a DNS server that hangs may hold up a start or a reload.
const FIRST_ATTEMPT: Duration = Duration::from_secs(1);

/// Keeps the upstreams of the running configuration.
#[derive(Debug)]
pub struct UpstreamManager {
    upstreams: Arc<Upstreams>,
    running: BTreeMap<Arc<str>, Running>,
    settings: Rc<RefCell<PoolSettings>>,
}

/// An upstream that is taken care of.
#[derive(Debug)]
struct Running {
    config: Arc<tollgate_config::Upstream>,
    dns: Dns,
    reach: Reach,
    _tasks: Vec<Task>,
}

/// How endpoints are reached from here: as requests of the first route that leads to them reach them.
#[derive(Clone, Debug)]
pub(super) struct Reach {
    pub(super) tls: Arc<Tls>,
    pub(super) http2: Http2,
    pub(super) settings: Rc<RefCell<PoolSettings>>,
}

/// A task that ends when it is dropped.
#[derive(Debug)]
pub(super) struct Task(JoinHandle<()>);

impl UpstreamManager {
    /// Takes care of nothing yet.
    #[must_use]
    pub fn new(upstreams: Arc<Upstreams>) -> Self {
        Self { upstreams, running: BTreeMap::new(), settings: Rc::default() }
    }

    /// Takes care of the upstreams of `config` from now on, within the calling set of local tasks. What is known of an
    /// endpoint that stays goes on being true. Where there is no endpoint yet it waits for the first answer of DNS, a second at
    /// most, so that nobody is refused for want of one that is on its way.
    pub async fn apply(&mut self, config: &Config) {
        let client = &config.http_client;
        let settings = PoolSettings::for_worker(client, 0, NonZeroUsize::MIN);
        *self.settings.borrow_mut() = PoolSettings { max_idle: 0, max_connections: None, ..settings };
        let mut before = std::mem::take(&mut self.running);
        let mut first_answers = Vec::new();
        for wanted in &config.upstreams {
            let leads_there = |route: &&tollgate_config::Route| matches!(&route.uri, Target::Balanced { upstream, .. } if upstream.name == wanted.name);
            let route = config.routes.iter().find(leads_there);
            let reach = Reach {
                tls: Arc::clone(route.and_then(|route| route.tls.as_ref()).unwrap_or(&client.tls)),
                http2: route.and_then(|route| route.http2).unwrap_or(client.http2),
                settings: Rc::clone(&self.settings),
            };
            let kept = before.remove(&wanted.name).filter(|old| {
                let is_reached_so = old.reach.tls == reach.tls && old.reach.http2 == reach.http2;
                old.config == *wanted && old.dns == config.dns && is_reached_so
            });
            let running = kept.unwrap_or_else(|| {
                let upstream = self.upstreams.get(&wanted.name);
                let (tasks, first_answer) = start(&upstream, wanted, &config.dns, &reach);
                first_answers.extend(first_answer.filter(|_| upstream.endpoints().is_empty()));
                let dns = config.dns.clone();
                Running { config: Arc::clone(wanted), dns, reach: reach.clone(), _tasks: tasks }
            });
            self.running.insert(Arc::clone(&wanted.name), running);
        }
        self.upstreams.retain(|name| self.running.contains_key(name));
        let all = async {
            for first_answer in first_answers {
                let _ = first_answer.await;
            }
        };
        let _ = timeout(FIRST_ATTEMPT, all).await;
    }
}

/// Starts what `wanted` needs; what tells of the first answer of DNS, where that is asked.
fn start(
    upstream: &Arc<Upstream>,
    wanted: &tollgate_config::Upstream,
    dns: &Dns,
    reach: &Reach,
) -> (Vec<Task>, Option<oneshot::Receiver<()>>) {
    let mut tasks = Vec::new();
    let mut first_answer = None;
    match &wanted.endpoints {
        EndpointSource::Listed(list) => upstream.list(list),
        EndpointSource::Dns(query) => {
            let (attempted, first) = oneshot::channel();
            first_answer = Some(first);
            tasks.push(spawn_local(discovery::follow(Arc::clone(upstream), query.clone(), dns.clone(), attempted)));
        }
    }
    match &wanted.health {
        Some(check) => {
            tasks.push(spawn_local(health::watch(Arc::clone(upstream), Arc::new(check.clone()), reach.clone())));
        }
        None => upstream.endpoints().iter().for_each(|endpoint| upstream.set_health(endpoint, Health::Unknown)),
    }
    match &wanted.ejection {
        Some(_) => tasks.push(spawn_local(end_ejections(Arc::clone(upstream)))),
        None => upstream.clear_ejections(),
    }
    (tasks.into_iter().map(Task::from).collect(), first_answer)
}

/// Brings back who is ejected, when the time is over.
async fn end_ejections(upstream: Arc<Upstream>) {
    loop {
        let next = upstream.end_ejections();
        let over = async {
            match next {
                Some(at) => sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = over => {}
            () = upstream.ejected.notified() => {}
        }
    }
}

impl From<JoinHandle<()>> for Task {
    fn from(task: JoinHandle<()>) -> Self {
        Self(task)
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}
