//! Supervisor of one connection: connects, and reconnects when the connection is lost.

use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{PushInfo, PushKind, RedisResult, Value};
use tokio::time::error::Elapsed;
use tokio::time::{Instant, sleep_until, timeout};

use super::{AddressWatch, Node};
use crate::store::redis::connection::{Batcher, CONNECT_TIMEOUT, LiveConnection, STABLE_AFTER, connect};
use crate::store::redis::error::{StoreError, describe};
use crate::store::redis::random::jittered;

/// Shortest and longest time between the starts of two attempts. The longest keeps recovery within a second of Redis'
/// return. An attempt that took longer than the pause is repeated at once.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(50), Duration::from_millis(500));

/// Connects, waits until the connection is lost, and connects again.
pub(super) async fn run(node: Arc<Node>, slot: usize) {
    let mut address = node.address.watch();
    let mut pause = BACKOFF.0;
    for id in 1.. {
        let started = Instant::now();
        let Some(attempt) = attempt(&node, slot, id, &mut address).await else { continue };
        match attempt {
            Ok(Ok(connection)) => {
                let since = Instant::now();
                set_live(&node, slot, id, connection, since);
                if !wait_lost(&node, slot, id, &mut address).await {
                    continue;
                }
                node.refresh_address();
                if since.elapsed() >= STABLE_AFTER {
                    pause = BACKOFF.0;
                    continue;
                }
            }
            Ok(Err(error)) => record_failure(&node, slot, StoreError::classify(&error), &describe(&error)),
            Err(_) if node.context.connector.uses_tls() => record_failure(
                &node,
                slot,
                StoreError::Timeout,
                "no reply while connecting: check that the server's port expects TLS",
            ),
            Err(_) => record_failure(&node, slot, StoreError::Timeout, "no reply while connecting"),
        }
        node.refresh_address();
        tokio::select! {
            () = sleep_until(started + jittered(pause)) => {}
            () = address.changed() => {}
        }
        pause = (pause * 2).min(BACKOFF.1);
    }
}

/// Tries to connect once, within [`CONNECT_TIMEOUT`]. `None`: the address changed meanwhile.
async fn attempt(
    node: &Arc<Node>,
    slot: usize,
    id: u64,
    address: &mut AddressWatch,
) -> Option<Result<RedisResult<MultiplexedConnection>, Elapsed>> {
    let on_push = {
        let node = Arc::downgrade(node);
        move |push: &PushInfo| {
            let Some(node) = node.upgrade() else { return };
            match (&push.kind, push.data.as_slice()) {
                (PushKind::Disconnection, _) => node.record_end(slot, id),
                // Notice of another gateway.
                (PushKind::Message, [_, Value::BulkString(message)]) => node.context.handle_notice(message),
                _ => {}
            }
        }
    };
    let only_primary = address.requires_primary();
    let (info, channel) = (address.connection_info(&node.context.connector).await, &node.context.channel);
    tokio::select! {
        attempt = timeout(CONNECT_TIMEOUT, async { connect(&info?, only_primary, channel, on_push).await }) => Some(attempt),
        () = address.changed() => None,
    }
}

fn set_live(node: &Node, slot: usize, id: u64, connection: MultiplexedConnection, since: Instant) {
    let context = &node.context;
    let batcher = context.batch.then(|| Batcher::start(connection.clone(), Arc::clone(&context.stats)));
    let reports_end = context.connector.uses_push();
    node.slots[slot].set(LiveConnection { connection, id, batcher, reports_end, since });
    node.record_connected();
}

fn record_failure(node: &Node, slot: usize, kind: StoreError, detail: &str) {
    node.slots[slot].set_down();
    node.record_connect_error(kind, detail);
}

/// Waits until the connection is lost. Returns false if it was closed here because the address changed.
async fn wait_lost(node: &Node, slot: usize, id: u64, address: &mut AddressWatch) -> bool {
    tokio::select! {
        () = node.slots[slot].wait_removed() => true,
        () = address.changed() => {
            node.drop_connection(slot, id);
            false
        }
    }
}
