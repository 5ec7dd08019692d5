//! Counting use, for bills and statistics: who asked how often, and how many bytes went either way. Never denies. No
//! HTTP in here.
//!
//! A [`Meter`] counts what one filter sees into a [`Ledger`], in memory: one lock that no other thread holds for long,
//! no call of Redis. What has gathered there is one *cell* a name and field. With the feature `redis` a flusher takes
//! the cells as a batch every tick and adds them to hashes in Redis, each batch once, however often
//! it has to be sent. Without it they stay, are [read](Ledger::usage) there, and are dropped when their time is over.
//!
//! | Name | `request_counter.{<scope>.<key id>}.<period>` |
//! |---|---|
//! | scope | the meter: its route's id, or a name that several routes share |
//! | key id | what the request is counted under; empty for requests without one, `#` for those beyond `max_cells` |
//! | period | its start in UTC: `2026-11`, `2026-11-21` or `2026-11-21T13` |
//! | fields | `GET.2xx.requests`, `GET.2xx.bytes_in`, `GET.2xx.bytes_out`, by the [`Dimensions`] |
//!
//! Scope and key id are written as limiters write them ([`redis_text`](crate::key::redis_text)), so two
//! different pairs never share a name.

#[cfg(feature = "redis")]
mod batch;
#[cfg(feature = "redis")]
mod flusher;
mod ledger;
mod meter;
mod period;
#[cfg(feature = "redis")]
mod script;

#[cfg(feature = "redis")]
pub use self::flusher::{FlushSettings, Flusher};
pub use self::ledger::{Ledger, LedgerStatus, Usage};
pub use self::meter::{Dimensions, Meter, MeterSettings, Name};
pub use self::period::Period;

/// What is counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Requests.
    pub requests: u64,
    /// Bytes of their bodies that were read, trailers and framing not counted.
    pub bytes_in: u64,
    /// Bytes of the answers' bodies that were sent.
    pub bytes_out: u64,
}

impl Counts {
    /// Adds `other`, up to what fits.
    pub fn add(&mut self, other: &Self) {
        self.requests = self.requests.saturating_add(other.requests);
        self.bytes_in = self.bytes_in.saturating_add(other.bytes_in);
        self.bytes_out = self.bytes_out.saturating_add(other.bytes_out);
    }

    /// The counts and their names in Redis.
    #[must_use]
    pub fn named(&self) -> [(&'static str, u64); 3] {
        [("requests", self.requests), ("bytes_in", self.bytes_in), ("bytes_out", self.bytes_out)]
    }
}
