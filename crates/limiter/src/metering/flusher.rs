//! Sends counts from a ledger to Redis, each exactly once.
//!
//! Batches are sent one at a time, with increasing numbers. A late or failed batch is sent again with the same number
//! until Redis confirms it; the script ignores a number that a hash has already seen. Later batches queue behind it. If the
//! queue is full or needs room in the ledger, new counts stay there until later.
//!
//! In a cluster, the deltas for reachable nodes are added; only those for the unreachable node wait, and all later
//! batches wait behind them. An outage of any length therefore loses no count. It loses no attribution as long as half
//! of `max_cells` suffices for the names.
//!
//! Lost counts:
//!
//! - counts in memory when the process is killed, or that cannot be flushed at shutdown;
//! - a batch without a confirmation for 23 hours;
//! - counts for a key that holds another type.
//!
//! All but the counts of a killed process are counted and logged.

use std::collections::VecDeque;
use std::fmt;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use redis::Value;
use tokio::time::{Instant, sleep, timeout};

use super::batch::{self, Batch, Delta, DeltaOutcome, REQUEST_COUNTER, RESEND_FOR};
use super::ledger::Ledger;
use crate::store::redis::{
    Breakers, Operation, RedisClient, RedisSettings, RedisSettingsError, RedisStats, StoreError, Unanswered, jittered,
    no_advice,
};

/// Largest number of hashes per pipeline, so that Redis replies in a fraction of the timeout.
const MAX_PIPELINE: usize = 5_000;

/// First pause before a batch is sent again. It doubles with each failure.
const MIN_PAUSE: Duration = Duration::from_millis(50);

/// Longest pause before a batch is sent again.
const MAX_PAUSE: Duration = Duration::from_secs(2);

/// Interval at which expired counts are dropped if there is no Redis.
const SWEEP_EVERY: Duration = Duration::from_secs(60);

/// Shortest time between two warnings about a full ledger.
const WARN_EVERY: Duration = Duration::from_secs(60);

/// Settings of a flusher.
#[derive(Clone, Debug)]
pub struct FlushSettings {
    /// Interval between batches. The default of 1 s bounds the counts that a killed process loses.
    pub every: Duration,
    /// Largest number of queued batches; 16 by default. Beyond it, counts stay in the ledger.
    pub retry_queue: NonZeroUsize,
    /// Timeout of a pipeline. The default of 2 s is far above that of decisions, since no request waits for it.
    pub timeout: Duration,
}

/// Sends a ledger's counts to Redis. Drive it with [`tick`](Self::tick), end it with [`finish`](Self::finish).
pub struct Flusher {
    ledger: Arc<Ledger>,
    settings: FlushSettings,
    /// Random id of this flusher, distinct from those of all other processes.
    sender: String,
    client: Option<Arc<RedisClient>>,
    stats: Arc<RedisStats>,
    queue: VecDeque<Batch>,
    next_number: u64,
    pause: Option<Duration>,
    overflowed: (u64, Option<Instant>),
}

// === impl FlushSettings ===

impl Default for FlushSettings {
    fn default() -> Self {
        Self {
            every: Duration::from_secs(1),
            retry_queue: NonZeroUsize::MIN.saturating_add(15),
            timeout: Duration::from_secs(2),
        }
    }
}

// === impl Flusher ===

impl Flusher {
    /// Creates a flusher of `ledger` without a Redis. A ledger must have at most one flusher.
    ///
    /// # Errors
    /// Fails if the operating system provides no random numbers: two senders with the same id would drop batches.
    pub fn new(ledger: Arc<Ledger>, settings: FlushSettings) -> std::io::Result<Self> {
        let mut random = [0; 12];
        getrandom::fill(&mut random).map_err(std::io::Error::other)?;
        let sender = random.iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(Self {
            ledger,
            settings,
            sender,
            client: None,
            stats: Arc::default(),
            queue: VecDeque::new(),
            next_number: 1,
            pause: None,
            overflowed: (0, None),
        })
    }

    /// Records the calls to Redis in `stats`.
    #[must_use]
    pub fn counting(mut self, stats: Arc<RedisStats>) -> Self {
        self.stats = stats;
        self
    }

    /// Sets the Redis that receives all counts from now on, including queued batches. Without one, counts stay in memory.
    ///
    /// The client connects in tasks of the current runtime. It has its own connection, timeout and circuit breaker, so an
    /// outage of decisions does not delay counts and vice versa.
    ///
    /// # Errors
    /// Fails if the settings are invalid or if there is no runtime. The flusher is unchanged then.
    pub fn send_to(&mut self, redis: Option<&RedisSettings>) -> Result<(), RedisSettingsError> {
        let client = redis.map(|settings| {
            let settings = RedisSettings { timeout: self.settings.timeout, ..settings.clone() };
            RedisClient::start_for(
                "queueing usage until redis is reachable",
                &settings,
                &Breakers::silent(),
                Arc::clone(&self.stats),
                no_advice,
            )
        });
        self.client = client.transpose()?;
        self.pause = None;
        Ok(())
    }

    /// Takes the counts from the ledger and sends all queued batches. Returns the pause before the next tick.
    ///
    /// Cancel safe: batches not yet sent are sent at the next tick.
    pub async fn tick(&mut self) -> Duration {
        self.warn_of_overflow();
        if self.client.is_none() {
            self.ledger.sweep();
            return SWEEP_EVERY;
        }
        self.take_batch();
        match self.send().await {
            Ok(()) => {
                if self.pause.take().is_some() {
                    tracing::info!("usage flush to redis resumed");
                }
                self.settings.every
            }
            Err(_) => {
                let pause = self.pause.map_or(MIN_PAUSE, |pause| (pause * 2).min(MAX_PAUSE));
                self.pause = Some(pause);
                jittered(pause)
            }
        }
    }

    /// Sends the remaining counts within `within`. Returns the number of requests with lost counts; 0 without a Redis.
    pub async fn finish(mut self, within: Duration) -> u64 {
        if self.client.is_none() && self.queue.is_empty() {
            return 0;
        }
        let within = if self.client.is_some() { within } else { Duration::ZERO };
        let all = async {
            loop {
                self.take_batch();
                if self.send().await.is_ok() && self.ledger.cells() == 0 {
                    return;
                }
                sleep(MIN_PAUSE).await;
            }
        };
        let _ = timeout(within, all).await;
        // Later counts are lost.
        self.take_all();
        let unsent = self.queue.iter().map(Batch::requests).sum();
        self.ledger.tally.lost.fetch_add(unsent, Relaxed);
        unsent
    }

    /// Takes a batch from the ledger if there is room for one. Names of queued batches need room in the ledger a second
    /// time, since new requests count under them.
    fn take_batch(&mut self) {
        let waiting: usize = self.queue.iter().map(Batch::cells).sum();
        let cells = self.ledger.cells();
        let again = cells.saturating_sub(waiting);
        let fits = self.queue.len() < self.settings.retry_queue.get() && cells + again <= self.ledger.max_cells();
        if self.queue.is_empty() || fits {
            self.take_all();
        }
    }

    fn take_all(&mut self) {
        let cells = self.ledger.take();
        if !cells.is_empty() {
            self.queue.push_back(Batch::new(self.next_number, cells));
            self.next_number += 1;
            self.ledger.tally.waiting.store(self.queue.len(), Relaxed);
        }
    }

    /// Sends batch after batch until one fails.
    async fn send(&mut self) -> Result<(), StoreError> {
        let client = self.client.as_ref().ok_or(StoreError::Disconnected)?;
        let tally = &self.ledger.tally;
        while let Some(batch) = self.queue.front_mut() {
            if batch.sent_at.is_some_and(|at| at.elapsed() > RESEND_FOR) {
                let requests = batch.requests();
                tracing::error!(requests, "usage batch dropped: no confirmation from redis for 23 hours");
                tally.lost.fetch_add(requests, Relaxed);
                self.ledger.release(batch.deltas.drain(..).map(|delta| delta.cells).sum());
            }
            while !batch.deltas.is_empty() {
                let some = &batch.deltas[..batch.deltas.len().min(MAX_PIPELINE)];
                let calls = batch::calls(client.key_prefix(), &self.sender, batch.number, some);
                // Recorded before the call, since the future may be cancelled.
                let before = batch.sent_at.replace(batch.sent_at.unwrap_or_else(Instant::now));
                let sent = client.run_all(Operation::Metering, &REQUEST_COUNTER, &calls).await;
                if !sent.iter().any(|reply| reply.as_ref().is_err_and(|unanswered| unanswered.may_have_run)) {
                    batch.sent_at = before;
                }
                let failure = apply_replies(&self.ledger, &mut batch.deltas, sent);
                if let Some(failure) = failure {
                    tally.failed_sends.fetch_add(1, Relaxed);
                    return Err(failure);
                }
            }
            self.queue.pop_front();
            tally.waiting.store(self.queue.len(), Relaxed);
        }
        Ok(())
    }

    fn warn_of_overflow(&mut self) {
        let (reported, warned) = &mut self.overflowed;
        let overflowed = self.ledger.status().overflowed;
        if overflowed > *reported && warned.is_none_or(|at| at.elapsed() >= WARN_EVERY) {
            let requests = overflowed - *reported;
            tracing::warn!(
                requests,
                "usage ledger full: requests beyond `metering.max-cells` are counted under the key `#`"
            );
            *warned = Some(Instant::now());
            *reported = overflowed;
        }
    }
}

/// Applies the replies to the first of `deltas`: removes confirmed and rejected deltas, counts them and releases their
/// cells. Returns the first failure.
fn apply_replies(ledger: &Ledger, deltas: &mut Vec<Delta>, sent: Vec<Result<Value, Unanswered>>) -> Option<StoreError> {
    let (mut added, mut rejected, mut room, mut example, mut failure) = (0, 0, 0, None, None);
    let mut sent = sent.into_iter();
    deltas.retain(|delta| {
        let Some(reply) = sent.next() else { return true };
        let reply = reply.map_err(|unanswered| unanswered.kind);
        match reply.and_then(|reply| batch::delta_outcome(&reply).ok_or(StoreError::Other)) {
            Ok(DeltaOutcome::Added) => added += delta.requests(),
            Ok(DeltaOutcome::Rejected) => {
                rejected += delta.requests();
                example.get_or_insert_with(|| delta.name.clone());
            }
            Err(kind) => {
                failure = failure.or(Some(kind));
                return true;
            }
        }
        room += delta.cells;
        false
    });
    ledger.release(room);
    ledger.tally.flushed.fetch_add(added, Relaxed);
    if let Some(example) = example {
        ledger.tally.lost.fetch_add(rejected, Relaxed);
        let key = String::from_utf8_lossy(&example);
        tracing::error!(requests = rejected, %key, "usage lost: the redis key holds another type");
    }
    failure
}

impl fmt::Debug for Flusher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Flusher")
            .field("sender", &self.sender)
            .field("waiting", &self.queue.len())
            .finish_non_exhaustive()
    }
}
