//! How many gateways there are: each says in Redis that it lives, and is told how many do.
//!
//! While Redis is out of reach the last number stands, and each gateway admits its part of a limit by it.

use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use redis::{Cmd, Value};

use super::client::RedisClient;
use super::error::StoreError;
use super::hash_slot::HashSlot;
use super::locked::random_name;
use super::script::Script;
use super::stats::Operation;

/// The set of those that live. One key, so it is in one slot of a cluster.
const KEY: &str = "tollgate.gateways";

/// After how long without a word a gateway counts no more.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(5);

/// Answers in a row that must be lower before a lower number is believed: after a Redis that came back empty all
/// gateways have said that they live by then. A higher one is believed at once.
const BELIEVED_AFTER: usize = 3;

static SCRIPT: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("../../../lua/gateways.lua")));

/// How many gateways share a limit.
#[derive(Clone, Debug)]
pub enum Gateways {
    /// So many.
    Fixed(NonZeroU32),
    /// As many as were counted last.
    Counted(GatewayCount),
}

/// How many gateways were counted last; clones share it. 1 until somebody has counted.
#[derive(Clone, Debug, Default)]
pub struct GatewayCount(Arc<AtomicU32>);

/// One gateway's word that it lives.
#[derive(Debug)]
pub struct Heartbeat {
    id: String,
    count: GatewayCount,
    last: [u32; BELIEVED_AFTER],
}

// === impl Gateways ===

impl Gateways {
    /// How many there are.
    #[must_use]
    pub fn get(&self) -> NonZeroU32 {
        match self {
            Self::Fixed(count) => *count,
            Self::Counted(count) => count.get(),
        }
    }
}

impl Default for Gateways {
    fn default() -> Self {
        Self::Fixed(NonZeroU32::MIN)
    }
}

impl From<NonZeroU32> for Gateways {
    fn from(count: NonZeroU32) -> Self {
        Self::Fixed(count)
    }
}

// === impl GatewayCount ===

impl GatewayCount {
    /// How many there are.
    #[must_use]
    pub fn get(&self) -> NonZeroU32 {
        self.counted().unwrap_or(NonZeroU32::MIN)
    }

    /// The same; `None` if nobody has counted.
    #[must_use]
    pub fn counted(&self) -> Option<NonZeroU32> {
        NonZeroU32::new(self.0.load(Ordering::Relaxed))
    }

    /// Nobody counts any more.
    pub fn forget(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

// === impl Heartbeat ===

impl Heartbeat {
    /// How often to [`beat`](Self::beat): four may be lost before the others count one gateway less.
    pub const EVERY: Duration = Duration::from_secs(1);

    /// A gateway that nobody has heard of, and the count that it keeps up to date.
    #[must_use]
    pub fn new(count: GatewayCount) -> Self {
        Self { id: random_name(), count, last: [0; BELIEVED_AFTER] }
    }

    /// Says in Redis that this gateway lives, and counts those that do. One call, within the client's timeout.
    ///
    /// # Errors
    /// Redis could not be asked: the last count stands.
    pub async fn beat(&mut self, client: &RedisClient) -> Result<(), StoreError> {
        let gateways = self.call(client, "beat").await?;
        self.learn(gateways);
        Ok(())
    }

    /// Takes its word back: the others count one less at once. One call, within the client's timeout.
    ///
    /// # Errors
    /// Redis could not be asked: the others forget this gateway after five seconds.
    pub async fn leave(&mut self, client: &RedisClient) -> Result<(), StoreError> {
        self.call(client, "leave").await.map(drop)
    }

    async fn call(&self, client: &RedisClient, what: &str) -> Result<u32, StoreError> {
        let ticket = client.ticket_for(Operation::Heartbeat, || HashSlot::of(KEY.as_bytes()))?;
        ticket.run(&SCRIPT, &command(what, &self.id), count).await
    }

    fn learn(&mut self, gateways: u32) {
        self.last.rotate_left(1);
        self.last[BELIEVED_AFTER - 1] = gateways;
        let believed = self.last.iter().copied().max().unwrap_or_default().max(1);
        self.count.0.store(believed, Ordering::Relaxed);
    }
}

fn command(what: &str, id: &str) -> Cmd {
    let mut cmd = redis::cmd("EVALSHA");
    cmd.arg(SCRIPT.sha1()).arg(1).arg(KEY).arg(what).arg(id).arg(FORGOTTEN_AFTER.as_micros().to_string()).arg("");
    cmd
}

fn count(reply: &Value) -> Option<u32> {
    match reply {
        Value::Array(items) => match items.as_slice() {
            [Value::Int(gateways), Value::Int(_)] => u32::try_from(*gateways).ok(),
            _ => None,
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::*;

    #[test]
    fn more_are_believed_at_once_and_fewer_after_three_answers() {
        let count = GatewayCount::default();
        let mut heartbeat = Heartbeat::new(count.clone());
        assert_eq!(count.get().get(), 1);
        let believed = [0, 3, 1, 2, 3, 1, 1, 1, 4].map(|gateways| {
            heartbeat.learn(gateways);
            count.get().get()
        });
        assert_eq!(believed, [1, 3, 3, 3, 3, 3, 3, 1, 4]);
    }

    #[test]
    fn replies_become_counts() {
        let reply = |items: &[i64]| count(&Value::Array(items.iter().copied().map(Value::Int).collect()));
        assert_eq!([reply(&[2, 7]), reply(&[0, 7])], [Some(2), Some(0)]);
        assert_eq!([reply(&[-1, 7]), reply(&[1]), count(&Value::Nil)], [None; 3]);
    }
}
