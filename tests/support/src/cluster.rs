//! Redis Cluster.

use std::process::{Command, Stdio};
use std::time::Duration;

use redis::FromRedisValue;

use crate::ports::Port;
use crate::{RedisServer, SlotMove, eventually};

/// Number of primaries.
const PRIMARIES: usize = 3;

/// Cluster of three primaries, each with or without a replica. A node counts as failed after two seconds without a reply.
/// Unserved slot ranges do not stop the other primaries.
#[derive(Debug)]
pub struct Cluster {
    /// All nodes. A failover changes the primaries.
    pub nodes: Vec<RedisServer>,
}

/// Line of `CLUSTER NODES`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Role {
    port: u16,
    id: String,
    flags: String,
    follows: String,
    epoch: String,
    slots: Vec<(u16, u16)>,
}

impl Cluster {
    /// Starts three primaries with one replica each, on free ports.
    pub fn start() -> Self {
        Self::start_with(1, &[])
    }

    /// Starts three primaries without replicas, which takes less time.
    pub fn primaries() -> Self {
        Self::start_with(0, &[])
    }

    /// Starts three primaries with `replicas` each, and further arguments for every node, such as
    /// `--cluster-require-full-coverage yes`.
    pub fn start_with(replicas: usize, arguments: &[&str]) -> Self {
        let own = [
            "--cluster-enabled yes --cluster-node-timeout 2000 --cluster-replica-validity-factor 0",
            "--cluster-require-full-coverage no --repl-diskless-sync-delay 0",
        ];
        let own = own.iter().flat_map(|line| line.split(' '));
        let arguments: Vec<&str> = own.chain(arguments.iter().copied()).collect();
        let start = |_| {
            let mut node = RedisServer::stopped_on(Port::claim_with_bus(), &arguments);
            node.launch();
            node
        };
        let cluster = Self { nodes: (0..PRIMARIES * (1 + replicas)).map(start).collect() };
        let created = Command::new("redis-cli")
            .args(["--cluster", "create"])
            .args(cluster.addresses())
            .args(["--cluster-replicas", &replicas.to_string(), "--cluster-yes"])
            .args(cluster.nodes[0].password().iter().flat_map(|password| ["--no-auth-warning", "-a", password]))
            .stdin(Stdio::null())
            .output()
            .expect("redis-cli is installed");
        assert!(created.status.success(), "{}", String::from_utf8_lossy(&created.stdout));
        cluster.wait_complete();
        cluster
    }

    /// Returns the addresses of the nodes.
    pub fn addresses(&self) -> Vec<String> {
        self.nodes.iter().map(|node| node.address.to_string()).collect()
    }

    /// Returns the slot of a key.
    pub fn slot(&self, key: &str) -> u16 {
        self.ask(&["CLUSTER", "KEYSLOT", key])
    }

    /// Returns the first of `prefix`0, `prefix`1, … that is, as a hash tag, in a slot of the node.
    pub fn key_on(&self, node: usize, prefix: &str) -> String {
        let keys = (0..).map(|number| format!("{prefix}{number}"));
        keys.filter(|key| self.primary_of(self.slot(key)) == node).take(1).collect()
    }

    /// Returns the index in `nodes` of the primary that serves a slot.
    pub fn primary_of(&self, slot: u16) -> usize {
        let roles = self.roles(self.up());
        self.place(serving(&roles, slot).unwrap_or_else(|| panic!("no node serves slot {slot}")).port)
    }

    /// Returns true if `nodes` report the same slots and epochs, and `primary` for `slot`.
    pub(crate) fn has_settled(&self, nodes: &[usize], slot: u16, primary: usize) -> bool {
        let views: Vec<_> = nodes.iter().map(|&node| self.roles(&self.nodes[node])).collect();
        let port = Some(self.nodes[primary].port);
        views.iter().all(|roles| serving(roles, slot).map(|role| role.port) == port && agree(roles, &views[0]))
    }

    /// Returns the index in `nodes` of a replica of `nodes[primary]`.
    pub fn replica_of(&self, primary: usize) -> usize {
        let roles = self.roles(self.up());
        let id = &roles.iter().find(|role| role.port == self.nodes[primary].port).unwrap().id;
        let replica = roles.iter().find(|role| role.follows == *id && !role.flags.contains("fail"));
        self.place(replica.expect("it has a replica").port)
    }

    /// Returns the indexes in `nodes` of all nodes that serve slots.
    pub fn serving(&self) -> Vec<usize> {
        let roles = self.roles(self.up());
        roles.iter().filter(|role| !role.slots.is_empty()).map(|role| self.place(role.port)).collect()
    }

    /// Runs an orderly failover to `nodes[replica]` and waits until all nodes know it.
    pub fn failover(&self, replica: usize) {
        self.nodes[replica].query::<()>(&["CLUSTER", "FAILOVER"]).unwrap();
        self.wait_serving(replica);
    }

    /// Waits until every live node knows that `nodes[node]` serves slots, and returns the duration. After a primary was
    /// killed or frozen, that is the duration of its failover.
    pub fn wait_serving(&self, node: usize) -> Duration {
        eventually("a replica has become a primary", || {
            let port = self.nodes[node].port;
            let serves = |role: &Role| role.port == port && !role.slots.is_empty();
            let mut up = self.nodes.iter().filter(|node| node.is_up());
            self.nodes[node].is_up() && up.all(|asked| self.roles(asked).iter().any(serves)) && self.is_ok()
        })
    }

    /// Starts moving a slot to `nodes[to]`; see [`SlotMove`] for the steps.
    pub fn begin_move(&self, slot: u16, to: usize) -> SlotMove<'_> {
        SlotMove::begin(self, slot, self.primary_of(slot), to)
    }

    /// Moves a slot to `nodes[to]`, with its keys.
    pub fn move_slot(&self, slot: u16, to: usize) {
        let moving = self.begin_move(slot, to);
        moving.move_keys();
        moving.finish();
    }

    /// Returns the cluster id of `nodes[node]`.
    pub(crate) fn id(&self, node: usize) -> String {
        self.nodes[node].query(&["CLUSTER", "MYID"]).unwrap()
    }

    /// Waits until all live nodes agree on a healthy cluster and each replica is connected; returns the duration.
    pub fn wait_complete(&self) -> Duration {
        eventually("the cluster is complete", || {
            self.is_ok()
                && self.nodes.iter().filter(|node| node.is_up()).all(|node| {
                    let roles = self.roles(node);
                    let follows = || node.info("role") == "master" || node.info("master_link_status") == "up";
                    let complete = roles.len() == self.nodes.len() && roles.iter().all(Role::is_settled);
                    complete && follows() && agree(&roles, &self.roles(self.up()))
                })
        })
    }

    /// Returns true if every live node reports `cluster_state:ok`.
    fn is_ok(&self) -> bool {
        self.nodes
            .iter()
            .filter(|node| node.is_up())
            .all(|node| node.query::<String>(&["CLUSTER", "INFO"]).is_ok_and(|info| info.contains("cluster_state:ok")))
    }

    fn place(&self, port: u16) -> usize {
        self.nodes.iter().position(|node| node.port == port).expect("one of the nodes")
    }

    fn up(&self) -> &RedisServer {
        self.nodes.iter().find(|node| node.is_up()).expect("a node is up")
    }

    fn ask<T: FromRedisValue>(&self, command: &[&str]) -> T {
        self.up().query(command).unwrap()
    }

    fn roles(&self, asked: &RedisServer) -> Vec<Role> {
        let text: String = asked.query(&["CLUSTER", "NODES"]).unwrap_or_default();
        text.lines().map(Role::parse).collect()
    }
}

/// Returns the node that serves `slot`.
fn serving(roles: &[Role], slot: u16) -> Option<&Role> {
    roles.iter().find(|role| role.slots.iter().any(|&(first, last)| (first..=last).contains(&slot)))
}

/// Returns true if two nodes report the same replication, slots and epochs. Of two claims to a slot, that of the later epoch
/// counts: with equal epochs, no message under way changes an owner.
fn agree(some: &[Role], others: &[Role]) -> bool {
    let view = |role: &Role| (role.port, role.follows.clone(), role.epoch.clone(), role.slots.clone());
    some.iter().all(|role| others.iter().any(|other| view(role) == view(other)))
}

impl Role {
    /// `id host:port@bus flags primary ping pong epoch link first-last …`; moving slots are in brackets.
    fn parse(line: &str) -> Self {
        let fields: Vec<&str> = line.split(' ').collect();
        let port = fields[1].split('@').next().unwrap().rsplit(':').next().unwrap();
        let range = |text: &&str| {
            let (first, last) = text.split_once('-').unwrap_or((*text, *text));
            Some((first.parse().ok()?, last.parse().ok()?))
        };
        Self {
            port: port.parse().unwrap(),
            id: fields[0].to_owned(),
            flags: fields[2].to_owned(),
            follows: fields[3].to_owned(),
            epoch: fields[6].to_owned(),
            slots: fields[8..].iter().filter_map(range).collect(),
        }
    }

    /// Returns true if the node serves slots or replicates a primary.
    fn is_settled(&self) -> bool {
        let is_known = !["fail", "handshake", "noaddr"].iter().any(|flag| self.flags.contains(flag));
        is_known && (!self.slots.is_empty() || self.follows != "-")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_cluster_nodes_is_parsed() {
        let line = "07c3 127.0.0.1:12001@22001,host myself,master - 0 1 2 connected 0-5 7 9-12 [93->-292f]";
        let role = Role::parse(line);
        assert_eq!((role.port, role.id.as_str(), role.follows.as_str()), (12_001, "07c3", "-"));
        assert_eq!(role.slots, [(0, 5), (7, 7), (9, 12)]);
        assert!(role.is_settled() && !Role::parse("a :0@0 slave,fail,noaddr 07c3 0 0 0 disconnected").is_settled());
    }
}
