//! First view of a cluster.

use std::sync::Arc;

use tokio::task::JoinSet;

use super::Cluster;
use super::home::HomeCluster;
use super::refresh::{Failure, none_reachable, query_node, with_deadline};
use super::slots_reply::ClusterView;
use crate::store::redis::connection_settings::HostPort;

/// Reply of a configured node; `None`: it has not replied yet.
type Reply = Option<Result<ClusterView, Failure>>;

/// Replies of all configured nodes, in their order.
type Replies = Vec<Reply>;

impl Cluster {
    /// Asks all seeds at once. The cluster of the first listed one with a map is used, so that all gateways agree if the
    /// seeds belong to several clusters.
    pub(super) async fn discover(&self, home: &Arc<HomeCluster>) -> Result<ClusterView, Failure> {
        let mut queries = JoinSet::new();
        for (index, at) in self.seeds.iter().enumerate() {
            let query = with_deadline(query_node(self.context.connector.connection_info(at), at.host.clone()));
            queries.spawn(async move { (index, query.await) });
        }
        let mut replies: Replies = self.seeds.iter().map(|_| None).collect();
        while let Some(reply) = queries.join_next().await {
            let Ok((index, reply)) = reply else { continue };
            replies[index] = Some(reply);
            if let Some(view) = first_listed(&self.seeds, &replies).cloned() {
                if home.adopt(&view) {
                    tokio::spawn(warn_of_others(Arc::clone(home), self.seeds.clone(), replies, queries));
                }
                return Ok(view);
            }
        }
        Err(replies.into_iter().flatten().find_map(Result::err).unwrap_or_else(none_reachable))
    }
}

/// Map of the first seed, its own or that of a node that names it. Without one, the next seed's counts once all replied.
fn first_listed<'r>(seeds: &[HostPort], replies: &'r [Reply]) -> Option<&'r ClusterView> {
    let views: Vec<&ClusterView> = replies.iter().flatten().flatten().collect();
    let naming = |at: &HostPort| views.iter().copied().find(|view| view.ranges.iter().any(|(_, node)| node == at));
    let mut views_by_seed = seeds.iter().zip(replies).map(|(at, reply)| match reply {
        Some(Ok(view)) => Some(view),
        _ => naming(at),
    });
    let all_replied = replies.iter().all(Option::is_some);
    if all_replied { views_by_seed.flatten().next() } else { views_by_seed.next()? }
}

/// Warns of seeds that belong to another cluster than `home`. Replies past the deadline do not count.
async fn warn_of_others(
    home: Arc<HomeCluster>,
    seeds: Vec<HostPort>,
    mut replies: Replies,
    mut queries: JoinSet<(usize, Result<ClusterView, Failure>)>,
) {
    while let Some(reply) = queries.join_next().await {
        let Ok((index, reply)) = reply else { continue };
        replies[index] = Some(reply);
    }
    let is_other = |reply: &Reply| matches!(reply, Some(Ok(view)) if !home.includes(view));
    let others = seeds.iter().zip(&replies).filter(|(_, reply)| is_other(reply));
    let others: Vec<String> = others.map(|(at, _)| at.to_string()).collect();
    if !others.is_empty() {
        tracing::warn!(?others, "seeds of another redis cluster have no effect: list nodes of one cluster only");
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::*;
    use crate::store::redis::error::StoreError;

    const A1: u16 = 1;
    const A2: u16 = 2;
    const B1: u16 = 11;

    fn at(port: u16) -> HostPort {
        HostPort { host: "h".into(), port }
    }

    fn cluster(id: &str, ports: [u16; 2]) -> ClusterView {
        let ranges = ports.map(|port| (port..=port, at(port))).to_vec();
        ClusterView { ranges, ids: [id.as_bytes().to_vec()].into() }
    }

    #[test]
    fn the_first_listed_seed_selects_the_cluster() {
        let [a, b] = [cluster("a", [A1, A2]), cluster("b", [B1, 12])];
        let [of_a, of_b] = [&a, &b].map(|view| || Some(Ok(view.clone())));
        let failed = || Some(Err((StoreError::Timeout, String::from("late"))));
        let cases: [(&[u16], Replies, Option<&ClusterView>); 9] = [
            (&[A1, B1], vec![None, None], None),
            (&[A1, B1], vec![of_a(), None], Some(&a)),
            // The first one may still reply.
            (&[A1, B1], vec![None, of_b()], None),
            (&[A1, B1], vec![of_a(), of_b()], Some(&a)),
            (&[A1, B1], vec![failed(), of_b()], Some(&b)),
            // Another node names it: a node that hangs delays nothing.
            (&[A1, A2], vec![None, of_a()], Some(&a)),
            (&[A1, B1, A2], vec![failed(), of_b(), None], None),
            (&[A1, B1, A2], vec![failed(), of_b(), of_a()], Some(&a)),
            (&[A1, B1], vec![failed(), failed()], None),
        ];
        for (number, (ports, replies, expected)) in cases.into_iter().enumerate() {
            let seeds: Vec<HostPort> = ports.iter().copied().map(at).collect();
            assert_eq!(first_listed(&seeds, &replies), expected, "case {number}");
        }
    }
}
