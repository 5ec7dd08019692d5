//! Sending of a request to its node, and on along redirections.

use std::sync::Arc;

use redis::{Cmd, RedisError, Value};
use tokio::time::{Duration, Instant, sleep};

use super::request::{Request, RequestError};
use crate::store::redis::connection::{LiveConnection, create_missing_keys, send_script};
use crate::store::redis::error::StoreError;
use crate::store::redis::script::Script;
use crate::store::redis::topology::{Address, Node, Redirect};

/// Most redirections of one call: from an outdated map to the new node, from there to the next, and once more for a slot
/// that migrates. More would be a loop.
pub(super) const MAX_REDIRECTS: usize = 4;

/// First pause before a call is repeated while only some of its keys have migrated; it doubles each time.
const TRY_AGAIN_PAUSE: Duration = Duration::from_millis(2);

/// Progress of a call along redirections.
struct Route {
    redirects: usize,
    pause: Duration,
    asking: bool,
    created_keys: bool,
    found_primary: bool,
}

impl Request {
    /// Sends `cmd` to the node and follows redirections. Nothing that may have run is sent again.
    pub(super) async fn send(&mut self, script: Option<&Script>, cmd: &Cmd) -> Result<Value, RequestError> {
        let mut route =
            Route { redirects: 0, pause: TRY_AGAIN_PAUSE, asking: false, created_keys: false, found_primary: false };
        loop {
            self.wait_connection().await?;
            let Some((_, live)) = &mut self.connection else {
                return Err(RequestError::NotSent(StoreError::Disconnected));
            };
            let misses = &self.client.context.stats.script_misses;
            let error = match send_script(&mut live.connection, misses, script, cmd, route.asking).await {
                Ok(value) => return Ok(value),
                Err(error) => error,
            };
            // A replica has not run what it refused.
            if !route.found_primary && StoreError::classify(&error) == StoreError::ReadOnly && self.wait_primary().await
            {
                route.found_primary = true;
                continue;
            }
            self.follow(error, &mut route, script, cmd).await?;
        }
    }

    /// Prepares to repeat a call that was redirected; any other error is returned.
    async fn follow(
        &mut self,
        error: RedisError,
        route: &mut Route,
        script: Option<&Script>,
        cmd: &Cmd,
    ) -> Result<(), RequestError> {
        let redirect = Redirect::parse(&error, self.node.host());
        match redirect.filter(|_| self.client.topology.is_cluster()) {
            Some(Redirect::TryAgain)
                if route.asking && !route.created_keys && script.is_some_and(Script::keeps_strings) =>
            {
                route.created_keys = true;
                if let Some((_, live)) = &mut self.connection {
                    create_missing_keys(&mut live.connection, cmd).await?;
                }
            }
            Some(Redirect::TryAgain) if Instant::now() + route.pause < self.deadline => {
                sleep(route.pause).await;
                route.pause *= 2;
            }
            Some(redirect) if route.redirects < MAX_REDIRECTS && redirect != Redirect::TryAgain => {
                route.redirects += 1;
                route.asking = matches!(redirect, Redirect::Ask(_));
                self.record_reply();
                let Some(node) = self.client.topology.follow(&redirect) else { return Err(error.into()) };
                self.redirect_to(node)?;
            }
            _ => return Err(error.into()),
        }
        Ok(())
    }

    /// Waits for a connection to the new primary, where Sentinels name it.
    async fn wait_primary(&mut self) -> bool {
        let (Address::Published(_), Some((slot, live))) = (&self.node.address, &self.connection) else { return false };
        let mut changes = self.client.context.changes();
        self.node.drop_connection(*slot, live.id);
        loop {
            self.connection = self.node.live_connection();
            if self.connection.is_some() {
                return true;
            }
            if changes.changed().await.is_err() {
                return false;
            }
        }
    }

    /// Continues the request at `node`.
    fn redirect_to(&mut self, node: Arc<Node>) -> Result<(), RequestError> {
        self.node = node;
        self.connection = None;
        if !self.node.breaker.admits() {
            return Err(RequestError::NotSent(StoreError::BreakerOpen));
        }
        self.connection = self.node.live_connection();
        Ok(())
    }

    /// Connection to the node. Waits for an attempt to connect that is in progress.
    pub(super) async fn wait_connection(&mut self) -> Result<&mut LiveConnection, RequestError> {
        if self.connection.is_none() {
            let mut changes = self.client.context.changes();
            loop {
                let is_connecting = self.node.is_connecting();
                self.connection = self.node.live_connection();
                if self.connection.is_some() || !is_connecting || changes.changed().await.is_err() {
                    break;
                }
            }
        }
        let live = self.connection.as_mut().map(|(_, live)| live);
        live.ok_or(RequestError::NotSent(StoreError::Disconnected))
    }
}
