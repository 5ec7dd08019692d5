//! Use of keys since the start of the process.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use http::{Response, StatusCode};
use parking_lot::Mutex;

use crate::api_key::KeyHash;
use crate::context::LocalReply;
use crate::response_filter::ResponseMapper;

/// Few enough to stay small, enough that workers rarely contend for a lock.
const SHARDS: usize = 16;

/// Use of each key that requests had, by the first bytes of its hash. It outlives the table of keys.
#[derive(Debug, Default)]
pub struct KeyUsage([Mutex<HashMap<u64, Usage>>; SHARDS]);

/// Use of one key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Minute of the last request, in minutes since 1970.
    pub minute: u64,
    /// Requests with the key.
    pub requests: u64,
    /// Requests that limiters denied.
    pub denials: u64,
}

/// Counts the denial of a request, if its response is one.
pub struct CountDenial(pub(super) Arc<KeyUsage>, pub(super) u64);

// === impl KeyUsage ===

impl KeyUsage {
    /// Returns the use of the key with `hash`.
    #[must_use]
    pub fn get(&self, hash: &KeyHash) -> Usage {
        let print = fingerprint(hash);
        self.shard(print).lock().get(&print).copied().unwrap_or_default()
    }

    /// Counts a request with the key, at `now` in seconds since 1970.
    pub(super) fn count(&self, print: u64, now: u64) {
        let mut shard = self.shard(print).lock();
        let usage = shard.entry(print).or_default();
        usage.requests += 1;
        usage.minute = now / 60;
    }

    fn shard(&self, print: u64) -> &Mutex<HashMap<u64, Usage>> {
        // The remainder is below the number of shards.
        &self.0[(print % SHARDS as u64) as usize]
    }
}

/// Returns the first bytes of `hash`. Two of a million keys share them with a probability of 1 to 10 million.
pub(super) fn fingerprint(hash: &KeyHash) -> u64 {
    hash.iter().take(8).fold(0, |print, byte| print << 8 | u64::from(*byte))
}

/// Returns the seconds since 1970.
pub(super) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

// === impl CountDenial ===

impl ResponseMapper for CountDenial {
    fn apply<R>(self, response: &mut Response<R>) {
        if response.status() == StatusCode::TOO_MANY_REQUESTS && LocalReply::marks(response) {
            self.0.shard(self.1).lock().entry(self.1).or_default().denials += 1;
        }
    }
}

crate::opaque_debug!(CountDenial);
