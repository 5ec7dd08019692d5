//! Cluster that the clients of a process belong to.

use std::collections::BTreeSet;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::slots_reply::ClusterView;
use crate::store::redis::connection_settings::HostPort;

/// Time after which a cluster that was left is forgotten: it was replaced for good.
const AWAITED_FOR: Duration = Duration::from_secs(600);

/// Home clusters by configured nodes. They last for as long as a client has these nodes, so a reload changes nothing.
static HOMES: Mutex<Vec<(Vec<HostPort>, Weak<HomeCluster>)>> = Mutex::new(Vec::new());

/// Cluster that was found first, as its nodes described it last. All clients with the same configured nodes have one.
///
/// A configured node or an address may come to belong to another cluster. Counting there would admit the limit a second
/// time, so another cluster is used only while no node of this one replies.
#[derive(Debug, Default)]
pub(super) struct HomeCluster(Mutex<Home>);

#[derive(Debug, Default)]
struct Home {
    ids: BTreeSet<Vec<u8>>,
    /// Primaries; none until a cluster is found.
    nodes: Vec<HostPort>,
    /// Since when another cluster is used.
    left_at: Option<Instant>,
}

impl HomeCluster {
    /// Home of all clients of this process with these `seeds`.
    pub(super) fn of(seeds: &[HostPort]) -> Arc<Self> {
        let mut homes = HOMES.lock();
        homes.retain(|(_, home)| home.strong_count() > 0);
        let shared = homes.iter().find(|(nodes, _)| nodes == seeds).and_then(|(_, home)| home.upgrade());
        shared.unwrap_or_else(|| {
            let home = Arc::default();
            homes.push((seeds.to_vec(), Arc::downgrade(&home)));
            home
        })
    }

    /// Returns true once a cluster is found.
    pub(super) fn is_known(&self) -> bool {
        !self.0.lock().nodes.is_empty()
    }

    /// Makes the cluster of `view` the home, unless there is one: then it returns false.
    pub(super) fn adopt(&self, view: &ClusterView) -> bool {
        let mut home = self.0.lock();
        let is_first = home.nodes.is_empty();
        if is_first {
            home.replace(view);
        }
        is_first
    }

    /// Returns true if `view` shares a node with this cluster. Without ids, or before the first view, any view does.
    pub(super) fn includes(&self, view: &ClusterView) -> bool {
        self.0.lock().includes(view)
    }

    /// Primaries.
    pub(super) fn nodes(&self) -> Vec<HostPort> {
        self.0.lock().nodes.clone()
    }

    /// Returns true if another cluster is used, and this one may reply again.
    pub(super) fn is_awaited(&self) -> bool {
        self.0.lock().left_at.is_some()
    }

    /// Records the view that a client uses from now on.
    pub(super) fn record(&self, view: &ClusterView) {
        let mut home = self.0.lock();
        let is_home = home.includes(view);
        let change = match home.left_at {
            None if !is_home => {
                home.left_at = Some(Instant::now());
                "using another redis cluster: no node of the known one replies; do all listed nodes belong to one cluster?"
            }
            Some(_) if is_home => "using the known redis cluster again: its nodes reply",
            Some(at) if at.elapsed() >= AWAITED_FOR => {
                home.replace(view);
                "keeping the other redis cluster: no node of the known one replied for ten minutes; list nodes of one cluster only"
            }
            _ => "",
        };
        if is_home {
            home.replace(view);
        }
        if !change.is_empty() {
            let nodes: BTreeSet<String> = view.ranges.iter().map(|(_, at)| at.to_string()).collect();
            tracing::warn!(?nodes, "{change}");
        }
    }
}

impl Home {
    fn includes(&self, view: &ClusterView) -> bool {
        self.ids.is_empty() || view.ids.is_empty() || !self.ids.is_disjoint(&view.ids)
    }

    fn replace(&mut self, view: &ClusterView) {
        self.left_at = None;
        self.ids.clone_from(&view.ids);
        self.nodes = view.ranges.iter().map(|(_, at)| at.clone()).collect();
        self.nodes.dedup();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(ids: &[&str]) -> ClusterView {
        let at = HostPort { host: "h".into(), port: 1 };
        ClusterView { ranges: vec![(0..=1, at)], ids: ids.iter().map(|id| id.as_bytes().to_vec()).collect() }
    }

    #[tokio::test(start_paused = true)]
    async fn a_cluster_is_known_by_the_ids_of_its_nodes() {
        let home = HomeCluster::default();
        assert!(home.includes(&view(&["a"])) && !home.is_known());
        home.record(&view(&["a", "b"]));
        assert!(home.is_known());
        assert!(home.includes(&view(&["b", "c"])) && home.includes(&view(&[])) && !home.includes(&view(&["c"])));
        // Nodes are replaced one after the other.
        home.record(&view(&["b", "c"]));
        assert!(home.includes(&view(&["c"])) && !home.includes(&view(&["a"])));
        home.record(&view(&["x"]));
        assert!(home.is_awaited() && home.includes(&view(&["c"])) && !home.includes(&view(&["x"])));
        home.record(&view(&["c"]));
        assert!(!home.is_awaited());
    }

    #[tokio::test(start_paused = true)]
    async fn a_cluster_without_a_reply_for_ten_minutes_is_forgotten() {
        let home = HomeCluster::default();
        home.record(&view(&["a"]));
        for _ in 0..2 {
            home.record(&view(&["b"]));
            tokio::time::advance(AWAITED_FOR - Duration::from_secs(1)).await;
            home.record(&view(&["b"]));
            assert!(home.is_awaited() && home.includes(&view(&["a"])));
            // One reply to any client, and the time begins anew.
            home.record(&view(&["a"]));
        }
        home.record(&view(&["b"]));
        tokio::time::advance(AWAITED_FOR).await;
        home.record(&view(&["b"]));
        assert!(!home.is_awaited() && home.includes(&view(&["b"])) && !home.includes(&view(&["a"])));
    }

    #[test]
    fn all_clients_with_the_same_seeds_have_one_home() {
        let seeds = |ports: [u16; 2]| ports.map(|port| HostPort { host: "one-home.example".into(), port });
        let first = HomeCluster::of(&seeds([1, 2]));
        assert!(first.adopt(&view(&["a"])));
        let second = HomeCluster::of(&seeds([1, 2]));
        assert!(!second.adopt(&view(&["b"])) && !second.includes(&view(&["b"])), "another client found it");
        assert!(HomeCluster::of(&seeds([1, 3])).adopt(&view(&["b"])));
        drop((first, second));
        assert!(HomeCluster::of(&seeds([1, 2])).adopt(&view(&["b"])), "its clients have ended");
    }
}
