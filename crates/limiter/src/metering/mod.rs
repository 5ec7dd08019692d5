//! Metering: counts requests and bytes per key, for billing and statistics. It never denies a request.
//!
//! A [`Meter`] counts the requests of one filter into a [`Ledger`] in memory. That takes one lock, which is rarely
//! contended, and no call to Redis. The ledger keeps one *cell* per name and field. With the feature `redis`, a flusher
//! takes the cells as a batch at each tick and adds them to hashes in Redis. Each batch is added once, even if it is sent
//! several times. Without it, counts stay in memory, where [`Ledger::usage`] reads them, until they expire.
//!
//! | Name | `request_counter.{<scope>.<key id>}.<period>` |
//! |---|---|
//! | scope | the meter: its route's id, or a name that several routes share |
//! | key id | key id of the request; empty for requests without one, `#` for requests beyond `max_cells` |
//! | period | start of the period in UTC: `2026-11`, `2026-11-21` or `2026-11-21T13` |
//! | fields | `GET.2xx.requests`, `GET.2xx.bytes_in`, `GET.2xx.bytes_out`, by the [`Dimensions`] |
//!
//! Scope and key id are encoded as in the names of limiters ([`redis_text`](crate::key::redis_text)), so two different
//! pairs never share a name.

#[cfg(feature = "redis")]
mod batch;
#[cfg(feature = "redis")]
mod flusher;
mod ledger;
mod meter;
mod period;
#[cfg(test)]
mod tests;

#[cfg(feature = "redis")]
pub use self::flusher::{FlushSettings, Flusher};
pub use self::ledger::{Ledger, LedgerStatus, Usage};
pub use self::meter::{Dimensions, Meter, MeterSettings, UsageName};
pub use self::period::Period;

/// Counts of requests and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Number of requests.
    pub requests: u64,
    /// Bytes read from request bodies, without trailers and framing.
    pub bytes_in: u64,
    /// Bytes sent in response bodies.
    pub bytes_out: u64,
}

impl Counts {
    /// Adds `other`, saturating.
    pub fn add(&mut self, other: &Self) {
        self.requests = self.requests.saturating_add(other.requests);
        self.bytes_in = self.bytes_in.saturating_add(other.bytes_in);
        self.bytes_out = self.bytes_out.saturating_add(other.bytes_out);
    }

    /// Returns the counts with their names in Redis.
    #[must_use]
    pub fn named(&self) -> [(&'static str, u64); 3] {
        [("requests", self.requests), ("bytes_in", self.bytes_in), ("bytes_out", self.bytes_out)]
    }
}
