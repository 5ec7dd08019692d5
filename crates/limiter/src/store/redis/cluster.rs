//! The nodes of a Redis Cluster, and which of them keeps which slot.
//!
//! The map is learnt from any node (`CLUSTER SLOTS`) by one task in the background ([`refresh`]), and mended at once,
//! for the slot in question, by whoever is redirected. Only primaries are connected to. Each has connections, a
//! breaker and supervisors of its own, so that what befalls one is of no concern to the keys of others.
//!
//! Source: the Redis Cluster specification, "Redirection and resharding".

mod map;
mod refresh;
mod view;

use std::collections::HashSet;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use self::map::Map;
use self::view::View;
use super::breaker::{BreakerState, Breakers};
use super::dial::Dial;
use super::error::StoreError;
use super::hash_slot::HashSlot;
use super::node::{Address, Node};
use super::settings::{HostPort, RedisSettings};
use super::shared::Shared;
use super::status::NodeStatus;
use super::supervisor;

/// How long connections are kept to a node that redirections spoke of and the map does not: it may be about to get its
/// first slot, or others have not heard yet that it did.
const GUEST_FOR: Duration = Duration::from_secs(30);

/// A cluster as one client knows it.
pub(super) struct Cluster {
    map: ArcSwap<Map>,
    changing: Mutex<Changing>,
    seeds: Vec<HostPort>,
    dial: Arc<Dial>,
    /// Connections to each node.
    links: usize,
    breakers: Breakers,
    runtime: Handle,
    /// Somebody saw that the map is out of date.
    outdated: Notify,
    /// Why there is no map, or none that is up to date.
    last_error: Mutex<Option<(StoreError, String)>>,
}

/// What whoever changes the map holds.
#[derive(Default)]
struct Changing {
    /// Nodes that redirections spoke of, and when they last did.
    guests: Vec<(Arc<Node>, Instant)>,
    refresher: Option<AbortHandle>,
    /// No node is connected to any more.
    closed: bool,
}

impl Cluster {
    /// The cluster that `seeds` are nodes of, whose connections are kept in tasks of `runtime`.
    pub(super) fn new(
        seeds: &[HostPort],
        dial: Arc<Dial>,
        settings: &RedisSettings,
        breakers: &Breakers,
        runtime: &Handle,
    ) -> Self {
        Self {
            map: ArcSwap::from_pointee(Map::empty()),
            changing: Mutex::default(),
            seeds: seeds.to_vec(),
            dial,
            links: settings.connections.get(),
            breakers: breakers.clone(),
            runtime: runtime.clone(),
            outdated: Notify::new(),
            last_error: Mutex::default(),
        }
    }

    /// Learns the map, and goes on doing so.
    pub(super) fn start(&self, shared: &Arc<Shared>) {
        let task = self.runtime.spawn(refresh::run(Arc::clone(shared)));
        self.changing.lock().refresher = Some(task.abort_handle());
    }

    /// The node that keeps `slot`. A slot that nobody keeps has the map looked at again.
    #[inline]
    pub(super) fn node(&self, slot: HashSlot) -> Option<Arc<Node>> {
        let node = self.map.load().node(slot).cloned();
        if node.is_none() {
            self.refresh_soon();
        }
        node
    }

    /// The nodes of the map.
    pub(super) fn nodes(&self) -> Vec<Arc<Node>> {
        self.map.load().nodes().to_vec()
    }

    /// How each node is doing; before there is a map, how learning it does.
    pub(super) fn status(&self) -> Vec<NodeStatus> {
        let nodes = self.nodes();
        if !nodes.is_empty() {
            return nodes.iter().map(|node| NodeStatus::of(node)).collect();
        }
        let seeds: Vec<String> = self.seeds.iter().map(HostPort::to_string).collect();
        let last_error = self.last_error.lock().as_ref().map(|(_, text)| text.clone());
        let (name, breaker) = (seeds.join(","), BreakerState::Open);
        vec![NodeStatus { name, primary: None, live_connections: 0, breaker, last_error }]
    }

    /// Whether the first attempt to reach every node is over.
    pub(super) fn was_attempted(&self) -> bool {
        let nodes = self.nodes();
        match nodes.is_empty() {
            true => self.last_error.lock().is_some(),
            false => nodes.iter().all(|node| node.was_attempted()),
        }
    }

    /// Has the map looked at again, as soon as that is due: once for all who ask.
    pub(super) fn refresh_soon(&self) {
        self.outdated.notify_one();
    }

    /// `at` keeps `slot` from now on, as a node said. `None` where nobody can be sent there.
    pub(super) fn moved(&self, shared: &Arc<Shared>, slot: HashSlot, at: &HostPort) -> Option<Arc<Node>> {
        let mut changing = self.changing.lock();
        let node = self.welcome(shared, &mut changing, at)?;
        let map = self.map.load();
        if !map.node(slot).is_some_and(|known| Arc::ptr_eq(known, &node)) {
            let mut map = Map::clone(&map);
            map.assign([slot], &node);
            self.map.store(Arc::new(map));
            self.refresh_soon();
        }
        Some(node)
    }

    /// The node at `at`, which is asked for one key before the slot is its own.
    pub(super) fn guest(&self, shared: &Arc<Shared>, at: &HostPort) -> Option<Arc<Node>> {
        self.welcome(shared, &mut self.changing.lock(), at)
    }

    /// Closes all connections and makes no more.
    pub(super) fn shutdown(&self) {
        let mut changing = self.changing.lock();
        changing.closed = true;
        if let Some(refresher) = changing.refresher.take() {
            refresher.abort();
        }
        changing.guests.drain(..).for_each(|(node, _)| node.shutdown());
        self.nodes().iter().for_each(|node| node.shutdown());
    }

    /// Whether every node of the map can be asked.
    fn is_well(&self) -> bool {
        let map = self.map.load();
        let well = |node: &Arc<Node>| node.live_connections() > 0 && node.breaker.state() == BreakerState::Closed;
        !map.nodes().is_empty() && map.nodes().iter().all(well)
    }

    /// From now on all is as `view` says. Nodes that it does not know are left.
    fn adopt(&self, shared: &Arc<Shared>, view: View) {
        let mut changing = self.changing.lock();
        let mut map = Map::empty();
        for (slots, at) in view {
            let Some(node) = self.find_or_connect(shared, &changing, &map, &at) else { continue };
            map.assign(all(slots), &node);
        }
        let before = self.map.swap(Arc::new(map));
        let now = self.map.load();
        let (stay, leave): (Vec<_>, Vec<_>) = changing.guests.drain(..).partition(|(_, at)| at.elapsed() < GUEST_FOR);
        changing.guests = stay;
        let left = leave.iter().map(|(node, _)| node).chain(before.nodes());
        for node in
            left.filter(|node| !now.has(node) && !changing.guests.iter().any(|(known, _)| Arc::ptr_eq(known, node)))
        {
            node.shutdown();
        }
        drop(changing);
        let names = |map: &Map| map.nodes().iter().map(|node| node.name.clone()).collect::<HashSet<_>>();
        if names(&before) != names(&now) {
            tracing::info!(nodes = ?now.nodes().iter().map(|node| &node.name).collect::<Vec<_>>(), "redis cluster");
        }
        *self.last_error.lock() = None;
        shared.recount();
    }

    /// The map could not be learnt. Says so once an outage and reason.
    fn not_learnt(&self, shared: &Shared, kind: StoreError, reason: String) {
        let news = self.last_error.lock().as_ref().is_none_or(|(known, _)| *known != kind);
        if news {
            tracing::warn!(kind = kind.as_str(), reason, "cannot learn which node of the redis cluster keeps what");
        }
        *self.last_error.lock() = Some((kind, reason));
        shared.recount();
    }

    /// The node at `at`, which stays for a while whatever the map says.
    fn welcome(&self, shared: &Arc<Shared>, changing: &mut Changing, at: &HostPort) -> Option<Arc<Node>> {
        let node = self.find_or_connect(shared, changing, &self.map.load(), at)?;
        let now = Instant::now();
        match changing.guests.iter_mut().find(|(known, _)| Arc::ptr_eq(known, &node)) {
            Some((_, last)) => *last = now,
            None => changing.guests.push((Arc::clone(&node), now)),
        }
        Some(node)
    }

    fn find_or_connect(
        &self,
        shared: &Arc<Shared>,
        changing: &Changing,
        next: &Map,
        at: &HostPort,
    ) -> Option<Arc<Node>> {
        let name = at.to_string();
        let map = self.map.load();
        let guests = changing.guests.iter().map(|(node, _)| node);
        let known = next.nodes().iter().chain(map.nodes()).chain(guests).find(|node| node.name == name);
        if let Some(known) = known {
            return Some(Arc::clone(known));
        }
        if changing.closed {
            return None;
        }
        let info = self.dial.to(at).ok()?;
        let breaker = self.breakers.of(&name);
        let node = Arc::new(Node::new(name, Address::Fixed(Box::new(info)), self.links, breaker));
        supervisor::start(shared, &node, &self.runtime);
        Some(node)
    }
}

fn all(slots: RangeInclusive<u16>) -> impl Iterator<Item = HashSlot> {
    slots.filter_map(HashSlot::new)
}
