//! Nodes of a Redis Cluster, and the slots they serve.
//!
//! A background task reads the slot map from any node (`CLUSTER SLOTS`, [`refresh`]); a redirected call updates its own
//! slot at once. Only primaries are connected to. Each has connections, a breaker and supervisors of its own, so losing a
//! node affects only the keys in its slots.
//!
//! Source: the Redis Cluster specification, "Redirection and resharding".

mod discovery;
mod home;
mod redirect;
mod refresh;
mod slots_reply;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::task::AbortHandle;
use tokio::time::Instant;

pub(crate) use self::redirect::Redirect;
use self::slots_reply::SlotRanges;
use super::node::{Address, Node, NodeStatus};
use crate::store::redis::breaker::{BreakerState, Breakers};
use crate::store::redis::connection::ConnectionContext;
use crate::store::redis::connection_settings::{HostPort, RedisSettings};
use crate::store::redis::error::StoreError;
use crate::store::redis::hash_slot::HashSlot;

/// Time for which connections to a redirection's target are kept although the map does not name it. It may be about to
/// get its first slot, or other nodes may not know yet that it did.
const KEEP_REDIRECT_TARGET: Duration = Duration::from_secs(30);

/// Index of a slot without a node.
const UNASSIGNED: u16 = u16::MAX;

/// A cluster as one client knows it.
pub(crate) struct Cluster {
    map: ArcSwap<SlotMap>,
    membership: Mutex<Membership>,
    seeds: Vec<HostPort>,
    context: Arc<ConnectionContext>,
    /// Connections to each node.
    connections: usize,
    breakers: Breakers,
    runtime: Handle,
    /// Reason why the last refresh of the map failed.
    last_error: Mutex<Option<(StoreError, String)>>,
}

/// Nodes that serve slots, and the node of each slot.
#[derive(Clone)]
struct SlotMap {
    nodes: Vec<Arc<Node>>,
    /// Index of each slot's node in `nodes`.
    slots: Box<[u16]>,
}

/// State that changes together with the map.
#[derive(Default)]
struct Membership {
    /// Targets of redirections, and the time of the last one.
    redirect_targets: Vec<(Arc<Node>, Instant)>,
    refresher: Option<AbortHandle>,
    /// True after [`Cluster::shutdown`].
    closed: bool,
}

impl Cluster {
    /// Creates a cluster with `seeds` as known nodes, and starts the task that reads the slot map. Connections live in tasks of
    /// `runtime`.
    pub(crate) fn start(
        seeds: &[HostPort],
        settings: &RedisSettings,
        context: Arc<ConnectionContext>,
        breakers: &Breakers,
        runtime: &Handle,
    ) -> Arc<Self> {
        let cluster = Arc::new(Self {
            map: ArcSwap::from_pointee(SlotMap::empty()),
            membership: Mutex::default(),
            seeds: seeds.to_vec(),
            context,
            connections: settings.connections.get(),
            breakers: breakers.clone(),
            runtime: runtime.clone(),
            last_error: Mutex::default(),
        });
        let task = runtime.spawn(refresh::run(Arc::clone(&cluster)));
        cluster.membership.lock().refresher = Some(task.abort_handle());
        cluster
    }

    /// Node that serves `slot`. A slot without a node requests a refresh.
    #[inline]
    pub(crate) fn node(&self, slot: HashSlot) -> Option<Arc<Node>> {
        let node = self.map.load().node(slot).cloned();
        if node.is_none() {
            self.context.refresh_slots();
        }
        node
    }

    /// Nodes of the map.
    pub(crate) fn nodes(&self) -> Vec<Arc<Node>> {
        self.map.load().nodes().to_vec()
    }

    /// Returns the status of each node; before the first map, status of the refresh.
    pub(crate) fn status(&self) -> Vec<NodeStatus> {
        let nodes = self.nodes();
        if !nodes.is_empty() {
            return nodes.iter().map(|node| NodeStatus::of(node)).collect();
        }
        let seeds: Vec<String> = self.seeds.iter().map(HostPort::to_string).collect();
        let last_error = self.last_error.lock().as_ref().map(|(_, text)| text.clone());
        let (name, breaker) = (seeds.join(","), BreakerState::Open);
        vec![NodeStatus { name, primary: None, live_connections: 0, breaker, last_error }]
    }

    /// Returns true if the first attempt to connect to every node has ended.
    pub(crate) fn was_attempted(&self) -> bool {
        let nodes = self.nodes();
        match nodes.is_empty() {
            true => self.last_error.lock().is_some(),
            false => nodes.iter().all(|node| node.was_attempted()),
        }
    }

    /// Follows `redirect`. `MOVED` changes the map. `None`: there is no target.
    pub(crate) fn follow(&self, redirect: &Redirect) -> Option<Arc<Node>> {
        match redirect {
            Redirect::Moved(slot, at) => self.reassign(*slot, at),
            Redirect::Ask(at) => self.redirect_target(&mut self.membership.lock(), at),
            Redirect::TryAgain => None,
        }
    }

    /// Closes all connections for good.
    pub(crate) fn shutdown(&self) {
        let mut membership = self.membership.lock();
        membership.closed = true;
        if let Some(refresher) = membership.refresher.take() {
            refresher.abort();
        }
        membership.redirect_targets.drain(..).for_each(|(node, _)| node.shutdown());
        self.nodes().iter().for_each(|node| node.shutdown());
    }

    /// Assigns `slot` to the node at `at`.
    fn reassign(&self, slot: HashSlot, at: &HostPort) -> Option<Arc<Node>> {
        let mut membership = self.membership.lock();
        let node = self.redirect_target(&mut membership, at)?;
        let map = self.map.load();
        if !map.node(slot).is_some_and(|assigned| Arc::ptr_eq(assigned, &node)) {
            let mut map = SlotMap::clone(&map);
            map.assign([slot], &node);
            self.map.store(Arc::new(map));
            self.context.refresh_slots();
        }
        Some(node)
    }

    /// Returns true if every node of the map is connected and its breaker closed.
    fn is_healthy(&self) -> bool {
        let map = self.map.load();
        let healthy = |node: &Arc<Node>| node.live_connections() > 0 && node.breaker.state() == BreakerState::Closed;
        !map.nodes().is_empty() && map.nodes().iter().all(healthy)
    }

    /// Replaces the map. Connections to nodes that are no longer part of it are closed.
    fn replace_map(&self, ranges: SlotRanges) {
        let mut membership = self.membership.lock();
        let mut map = SlotMap::empty();
        for (slots, at) in ranges {
            let Some(node) = self.find_or_connect(&membership, &map, &at) else { continue };
            map.assign(slots.filter_map(HashSlot::new), &node);
        }
        let before = self.map.swap(Arc::new(map));
        let now = self.map.load();
        let targets = membership.redirect_targets.drain(..);
        let (stay, leave): (Vec<_>, Vec<_>) = targets.partition(|(_, at)| at.elapsed() < KEEP_REDIRECT_TARGET);
        let is_used = |node: &&Arc<Node>| now.has(node) || stay.iter().any(|(target, _)| Arc::ptr_eq(target, node));
        let unused = leave.iter().map(|(node, _)| node).chain(before.nodes()).filter(|node| !is_used(node));
        unused.for_each(|node| node.shutdown());
        membership.redirect_targets = stay;
        drop(membership);
        let names = |map: &SlotMap| map.nodes().iter().map(|node| node.name.clone()).collect::<HashSet<_>>();
        if names(&before) != names(&now) {
            let nodes: Vec<_> = now.nodes().iter().map(|node| &node.name).collect();
            tracing::info!(?nodes, "redis cluster nodes changed");
        }
        *self.last_error.lock() = None;
        self.context.notify_change();
    }

    /// Records a failed refresh. Each reason is logged once in an outage.
    fn record_refresh_error(&self, kind: StoreError, detail: String) {
        let is_new = self.last_error.lock().as_ref().is_none_or(|(last_kind, _)| *last_kind != kind);
        if is_new {
            tracing::warn!(reason = kind.as_str(), error = detail, "cannot read the slots of the redis cluster");
        }
        *self.last_error.lock() = Some((kind, detail));
        self.context.notify_change();
    }

    /// Node at `at`, which is kept for [`KEEP_REDIRECT_TARGET`] whatever the map says.
    fn redirect_target(&self, membership: &mut Membership, at: &HostPort) -> Option<Arc<Node>> {
        let node = self.find_or_connect(membership, &self.map.load(), at)?;
        let now = Instant::now();
        match membership.redirect_targets.iter_mut().find(|(target, _)| Arc::ptr_eq(target, &node)) {
            Some((_, last)) => *last = now,
            None => membership.redirect_targets.push((Arc::clone(&node), now)),
        }
        Some(node)
    }

    fn find_or_connect(&self, membership: &Membership, next: &SlotMap, at: &HostPort) -> Option<Arc<Node>> {
        let name = at.to_string();
        let map = self.map.load();
        let targets = membership.redirect_targets.iter().map(|(node, _)| node);
        let connected = next.nodes().iter().chain(map.nodes()).chain(targets).find(|node| node.name == name);
        if let Some(node) = connected {
            return Some(Arc::clone(node));
        }
        if membership.closed {
            return None;
        }
        let address = Address::Fixed(Box::new(self.context.connector.connection_info(at).ok()?));
        // A node that joined a moment ago: calls wait for the connection.
        let connections = (self.connections, true);
        Some(Node::start(name, address, connections, &self.breakers, &self.context, &self.runtime))
    }
}

impl SlotMap {
    /// Map without nodes.
    fn empty() -> Self {
        Self { nodes: Vec::new(), slots: vec![UNASSIGNED; usize::from(HashSlot::COUNT)].into() }
    }

    /// Node that serves `slot`.
    #[inline]
    fn node(&self, slot: HashSlot) -> Option<&Arc<Node>> {
        self.nodes.get(usize::from(self.slots[usize::from(slot.number())]))
    }

    /// All nodes that serve a slot, or did when the map was last replaced.
    fn nodes(&self) -> &[Arc<Node>] {
        &self.nodes
    }

    fn has(&self, node: &Arc<Node>) -> bool {
        self.nodes.iter().any(|member| Arc::ptr_eq(member, node))
    }

    /// Assigns `slots` to `node`.
    fn assign(&mut self, slots: impl IntoIterator<Item = HashSlot>, node: &Arc<Node>) {
        let position = self.nodes.iter().position(|member| Arc::ptr_eq(member, node));
        let index = position.unwrap_or_else(|| {
            self.nodes.push(Arc::clone(node));
            self.nodes.len() - 1
        });
        for slot in slots {
            self.slots[usize::from(slot.number())] = u16::try_from(index).unwrap_or(UNASSIGNED);
        }
    }
}

#[cfg(test)]
mod tests;
