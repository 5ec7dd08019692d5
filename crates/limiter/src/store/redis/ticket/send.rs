//! A call on its way: to the node that it is for, and on to where that says the keys are.

use std::sync::Arc;

use redis::{Cmd, Value};
use tokio::time::{Duration, Instant, sleep};

use super::super::error::StoreError;
use super::super::exchange::{exchange, prepare};
use super::super::link::Live;
use super::super::node::{Address, Node};
use super::super::redirect::Redirect;
use super::super::script::Script;
use super::super::shared::{Shared, Topology};
use super::{Failure, Ticket};

/// How often a call is sent on to another node of a cluster: from a map that is out of date to the new node, from there
/// on, and once more for a slot that is being moved. More is a loop.
pub(in super::super) const HOPS: usize = 4;

/// The first pause before a call is sent again of which only some keys were moved yet; each next one is twice as long.
const TRY_AGAIN_AFTER: Duration = Duration::from_millis(2);

impl Ticket {
    /// Sends `cmd` to the node, and on to where that says the keys are. Nothing is sent twice that may have run.
    pub(super) async fn send(&mut self, script: Option<&Script>, cmd: &Cmd) -> Result<Value, Failure> {
        let (mut hops, mut pause, mut asking, mut prepared, mut found) = (0, TRY_AGAIN_AFTER, false, false, false);
        loop {
            self.reach().await?;
            let Some((_, live)) = &mut self.at else { return Err(Failure::NotAsked(StoreError::Disconnected)) };
            let misses = &self.shared.stats.script_misses;
            let error = match exchange(&mut live.connection, misses, script, cmd, asking).await {
                Ok(value) => return Ok(value),
                Err(error) => error,
            };
            // A replica has not run what it refused.
            if !found && StoreError::of(&error) == StoreError::ReadOnly && self.find_primary().await {
                found = true;
                continue;
            }
            let redirect = Redirect::of(&error, self.node.host());
            match redirect.filter(|_| self.shared.is_cluster()) {
                Some(Redirect::TryAgain) if asking && !prepared && script.is_some_and(Script::reads_strings) => {
                    prepared = true;
                    if let Some((_, live)) = &mut self.at {
                        prepare(&mut live.connection, cmd).await?;
                    }
                }
                Some(Redirect::TryAgain) if Instant::now() + pause < self.deadline => {
                    sleep(pause).await;
                    pause *= 2;
                }
                Some(redirect) if hops < HOPS && redirect != Redirect::TryAgain => {
                    hops += 1;
                    asking = matches!(redirect, Redirect::Ask(_));
                    self.answered();
                    let Some(node) = Shared::follow(&self.shared, &redirect) else { return Err(error.into()) };
                    self.turn_to(node)?;
                }
                _ => return Err(error.into()),
            }
        }
    }

    /// Waits for a connection to the server that has become the primary, if somebody knows which.
    async fn find_primary(&mut self) -> bool {
        let (Address::Primary(_), Some((link, live))) = (&self.node.address, &self.at) else { return false };
        let mut changes = self.shared.live.subscribe();
        self.shared.lose(&self.node, &self.node.links[*link], live.number);
        loop {
            self.at = self.node.find_live();
            if self.at.is_some() {
                return true;
            }
            if changes.changed().await.is_err() {
                return false;
            }
        }
    }

    /// From now on it is about that node.
    fn turn_to(&mut self, node: Arc<Node>) -> Result<(), Failure> {
        self.node = node;
        self.at = None;
        if !self.node.breaker.admits() {
            return Err(Failure::NotAsked(StoreError::BreakerOpen));
        }
        self.at = self.node.find_live();
        Ok(())
    }

    /// A connection to the node. One that is new is waited for, until the first attempt is over.
    pub(super) async fn reach(&mut self) -> Result<&mut Live, Failure> {
        if self.at.is_none() {
            let mut changes = self.shared.live.subscribe();
            loop {
                let waits = self.shared.is_new(&self.node);
                self.at = self.node.find_live();
                if self.at.is_some() || !waits || changes.changed().await.is_err() {
                    break;
                }
            }
        }
        let live = self.at.as_mut().map(|(_, live)| live);
        live.ok_or(Failure::NotAsked(StoreError::Disconnected))
    }
}

impl Shared {
    /// The node that `redirect` names, which everybody is sent to from now on if it was moved there. `None` where that is
    /// nowhere.
    pub(in super::super) fn follow(shared: &Arc<Self>, redirect: &Redirect) -> Option<Arc<Node>> {
        let Topology::Cluster(cluster) = &shared.topology else { return None };
        match redirect {
            Redirect::Moved(slot, at) => cluster.moved(shared, *slot, at),
            Redirect::Ask(at) => cluster.guest(shared, at),
            Redirect::TryAgain => None,
        }
    }
}
