//! Cluster that a client belongs to.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use super::slots_reply::ClusterView;
use crate::store::redis::settings::HostPort;

/// Time for which the nodes of a cluster that was left are asked often. It may have been replaced for good.
const AWAITED_FOR: Duration = Duration::from_secs(600);

/// Cluster that a client found first, as its nodes described it last.
///
/// A configured node or an address may come to belong to another cluster. Counting there would admit the limit a second
/// time, so another cluster is used only while no node of this one replies.
#[derive(Debug, Default)]
pub(super) struct HomeCluster {
    ids: BTreeSet<Vec<u8>>,
    nodes: Vec<HostPort>,
    /// Since when another cluster is used.
    left_at: Option<Instant>,
}

impl HomeCluster {
    /// Returns true if `view` shares a node with this cluster. Without ids, or before the first view, any view does.
    pub(super) fn includes(&self, view: &ClusterView) -> bool {
        self.ids.is_empty() || view.ids.is_empty() || !self.ids.is_disjoint(&view.ids)
    }

    /// Primaries.
    pub(super) fn nodes(&self) -> &[HostPort] {
        &self.nodes
    }

    /// Returns true if another cluster is used, and this one may soon reply again.
    pub(super) fn is_awaited(&self) -> bool {
        self.left_at.is_some_and(|at| at.elapsed() < AWAITED_FOR)
    }

    /// Records the view that is used from now on.
    pub(super) fn record(&mut self, view: &ClusterView) {
        let is_left = !self.includes(view);
        if is_left != self.left_at.is_some() {
            let nodes: Vec<String> =
                view.ranges.iter().map(|(_, at)| at.to_string()).collect::<BTreeSet<_>>().into_iter().collect();
            let change = if is_left {
                "using another redis cluster: no node of the known one replies; do all of `redis.cluster.nodes` belong to one cluster?"
            } else {
                "using the known redis cluster again: its nodes reply"
            };
            tracing::warn!(?nodes, "{change}");
        }
        self.left_at = is_left.then(|| self.left_at.unwrap_or_else(Instant::now));
        if !is_left {
            self.ids.clone_from(&view.ids);
            self.nodes = view.ranges.iter().map(|(_, at)| at.clone()).collect();
            self.nodes.dedup();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(ids: &[&str]) -> ClusterView {
        let at = HostPort { host: "h".into(), port: 1 };
        ClusterView { ranges: vec![(0..=1, at)], ids: ids.iter().map(|id| id.as_bytes().to_vec()).collect() }
    }

    #[test]
    fn a_cluster_is_known_by_the_ids_of_its_nodes() {
        let mut home = HomeCluster::default();
        assert!(home.includes(&view(&["a"])));
        home.record(&view(&["a", "b"]));
        assert!(home.includes(&view(&["b", "c"])) && home.includes(&view(&[])) && !home.includes(&view(&["c"])));
        // Nodes are replaced one after the other.
        home.record(&view(&["b", "c"]));
        assert!(home.includes(&view(&["c"])) && !home.includes(&view(&["a"])));
        home.record(&view(&["x"]));
        assert!(home.is_awaited() && home.includes(&view(&["c"])) && !home.includes(&view(&["x"])));
        home.record(&view(&["c"]));
        assert!(!home.is_awaited());
    }
}
