//! Heartbeats, by which gateways count each other.
//!
//! While Redis is unreachable the last count stays, and each gateway admits its share of a limit by it.

use std::sync::LazyLock;
use std::time::Duration;

use redis::{Cmd, Value};

use crate::store::redis::client::RedisClient;
use crate::store::redis::error::StoreError;
use crate::store::redis::gateways::GatewayCount;
use crate::store::redis::hash_slot::HashSlot;
use crate::store::redis::random::random_id;
use crate::store::redis::script::Script;
use crate::store::redis::stats::Operation;

/// Sorted set of running gateways, behind the prefix of keys: one key, so one slot of a cluster.
const KEY: &str = "tollgate.gateways";

/// Time without a heartbeat after which a gateway is no longer counted.
const EXPIRES_AFTER: Duration = Duration::from_secs(5);

/// Consecutive lower counts before a lower count is used. After a Redis that returned empty, all gateways have sent a
/// heartbeat by then. A higher count is used at once.
const CONFIRMATIONS: usize = 3;

static SCRIPT: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("../../../../lua/gateways.lua")));

/// Heartbeat of one gateway.
#[derive(Debug)]
pub struct Heartbeat {
    id: String,
    count: GatewayCount,
    recent: [u32; CONFIRMATIONS],
}

impl Heartbeat {
    /// Time between two heartbeats. Four may be lost before the others count one gateway less.
    pub const EVERY: Duration = Duration::from_secs(1);

    /// Creates the heartbeat of a new gateway. It updates `count`.
    #[must_use]
    pub fn new(count: GatewayCount) -> Self {
        Self { id: random_id(), count, recent: [0; CONFIRMATIONS] }
    }

    /// Sends a heartbeat and counts the gateways: one call, within the client's timeout.
    ///
    /// # Errors
    /// Redis did not reply; the last count stays.
    pub async fn beat(&mut self, client: &RedisClient) -> Result<(), StoreError> {
        let gateways = self.call(client, "beat").await?;
        self.update(gateways);
        Ok(())
    }

    /// Removes this gateway, so that the others count one less at once: one call, within the client's timeout.
    ///
    /// # Errors
    /// Redis did not reply; the gateway expires after five seconds.
    pub async fn leave(&mut self, client: &RedisClient) -> Result<(), StoreError> {
        self.call(client, "leave").await.map(drop)
    }

    async fn call(&self, client: &RedisClient, action: &str) -> Result<u32, StoreError> {
        let key = format!("{}{KEY}", client.key_prefix());
        let request = client.request(Operation::Heartbeat, || HashSlot::of(key.as_bytes()))?;
        Ok(request.run(Some(&*SCRIPT), &command(&key, action, &self.id), count).await?)
    }

    fn update(&mut self, gateways: u32) {
        self.recent.rotate_left(1);
        self.recent[CONFIRMATIONS - 1] = gateways;
        self.count.set(self.recent.iter().copied().max().unwrap_or_default().max(1));
    }
}

fn command(key: &str, action: &str, id: &str) -> Cmd {
    let mut cmd = redis::cmd("EVALSHA");
    cmd.arg(SCRIPT.sha1()).arg(1).arg(key).arg(action).arg(id).arg(EXPIRES_AFTER.as_micros().to_string()).arg("");
    cmd
}

/// Decodes the number of gateways, beside the time.
fn count(reply: &Value) -> Option<u32> {
    let Some([Value::Int(gateways), Value::Int(_)]) = reply.as_sequence() else { return None };
    u32::try_from(*gateways).ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::*;

    #[test]
    fn a_higher_count_is_used_at_once_and_a_lower_one_after_three_replies() {
        let count = GatewayCount::default();
        let mut heartbeat = Heartbeat::new(count.clone());
        assert_eq!(count.get().get(), 1);
        let counts = [0, 3, 1, 2, 3, 1, 1, 1, 4].map(|gateways| {
            heartbeat.update(gateways);
            count.get().get()
        });
        assert_eq!(counts, [1, 3, 3, 3, 3, 3, 3, 1, 4]);
    }

    #[test]
    fn replies_become_counts() {
        let reply = |items: &[i64]| count(&Value::Array(items.iter().copied().map(Value::Int).collect()));
        assert_eq!([reply(&[2, 7]), reply(&[0, 7])], [Some(2), Some(0)]);
        assert_eq!([reply(&[-1, 7]), reply(&[1]), count(&Value::Nil)], [None; 3]);
    }
}
