//! Migration of a slot between two nodes of a cluster.

use crate::{Cluster, eventually};

/// Slot migration that can be paused at every step. Meanwhile, the old node replies `ASK` for moved and new keys, and
/// `TRYAGAIN` for calls with moved and unmoved keys. Dropping the value leaves the migration in its current state.
#[derive(Debug)]
#[must_use]
pub struct SlotMove<'a> {
    cluster: &'a Cluster,
    slot: String,
    from: usize,
    to: usize,
}

impl<'a> SlotMove<'a> {
    pub(crate) fn begin(cluster: &'a Cluster, slot: u16, from: usize, to: usize) -> Self {
        let moving = Self { cluster, slot: slot.to_string(), from, to };
        moving.set(to, "IMPORTING", Some(from));
        moving.set(from, "MIGRATING", Some(to));
        moving
    }

    /// Returns the keys of the slot that have not moved.
    pub fn keys_left(&self) -> Vec<String> {
        self.cluster.nodes[self.from].query(&["CLUSTER", "GETKEYSINSLOT", &self.slot, "1000"]).unwrap()
    }

    /// Moves one key.
    pub fn move_key(&self, key: &str) {
        let to = &self.cluster.nodes[self.to];
        let port = to.port.to_string();
        let mut command = vec!["MIGRATE", "127.0.0.1", &port, key, "0", "5000"];
        if let Some(password) = to.password() {
            command.extend(["AUTH", password]);
        }
        self.cluster.nodes[self.from].query::<()>(&command).unwrap();
    }

    /// Moves all remaining keys. Concurrent calls create keys at the new node.
    pub fn move_keys(&self) {
        loop {
            let left = self.keys_left();
            if left.is_empty() {
                return;
            }
            left.iter().for_each(|key| self.move_key(key));
        }
    }

    /// Assigns the slot to the new node, which announces it: replies are `MOVED` from now on.
    pub fn finish(self) {
        let slot = self.slot.parse().unwrap();
        // The new node first; otherwise both nodes would redirect clients to each other.
        let serving = self.cluster.serving();
        let rest = serving.iter().copied().filter(|&node| node != self.from && node != self.to);
        for node in [self.to, self.from].into_iter().chain(rest) {
            self.set(node, "NODE", Some(self.to));
        }
        eventually("all nodes know that the slot has moved", || self.cluster.has_settled(&serving, slot, self.to));
    }

    /// Cancels the migration; only before a key has moved.
    pub fn abandon(self) {
        self.set(self.from, "STABLE", None);
        self.set(self.to, "STABLE", None);
    }

    fn set(&self, node: usize, state: &str, other: Option<usize>) {
        let id = other.map(|other| self.cluster.id(other));
        let mut command = vec!["CLUSTER", "SETSLOT", &self.slot, state];
        command.extend(id.as_deref());
        self.cluster.nodes[node].query::<()>(&command).unwrap();
    }
}
