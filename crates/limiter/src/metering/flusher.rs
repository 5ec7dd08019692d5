//! Brings counts from a ledger into Redis, each once.
//!
//! One batch after the other, each under a number above the last one's. What is late or fails is sent again, with the
//! same number, until it lands: the script adds nothing to a hash that has seen the number. Behind a batch that waits,
//! others queue; when the queue is full, or takes room that the ledger needs, what is counted stays there and goes along
//! later. (In a cluster what belongs to other nodes lands, and only what belongs to the lost one waits: but all later
//! batches wait with it.) So an outage of any length costs no count, and no attribution as long as half of `max_cells` is enough for the
//! names.
//!
//! Lost are: what is in memory when the process is killed, or cannot be flushed when it ends; a batch of which nobody
//! knows for 23 hours whether it landed; what would have to be added to a key of another type. All but the first are
//! counted and logged.

use std::collections::VecDeque;
use std::fmt;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use redis::Value;
use tokio::time::{Instant, sleep, timeout};

use super::batch::{Batch, Delta};
use super::ledger::Ledger;
use super::script::{self, Fate, REQUEST_COUNTER, RESEND_FOR};
use crate::store::redis::{
    Breakers, Operation, RedisClient, RedisSettings, RedisSettingsError, RedisStats, StoreError, Unanswered, jittered,
};

/// Hashes in one pipeline. More go in several, so that one is answered in a fraction of its timeout.
const PIPELINE: usize = 5_000;

/// The first and the longest pause before a batch is sent again.
const PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));

/// How often counts that are only kept in memory are looked through for those whose time is over.
const SWEEP_EVERY: Duration = Duration::from_secs(60);

/// How often it is said that the ledger is full.
const WARN_EVERY: Duration = Duration::from_secs(60);

/// How batches are sent.
#[derive(Clone, Debug)]
pub struct FlushSettings {
    /// How often: the default of a second bounds what a killed process loses.
    pub every: Duration,
    /// Batches that may wait at once; 16 by default. Beyond them counts stay in the ledger.
    pub retry_queue: NonZeroUsize,
    /// How long Redis may take for one pipeline. The default of 2 s is far above a decision's: nobody waits for it.
    pub timeout: Duration,
}

/// Sends a ledger's counts to Redis. Drive it with [`tick`](Self::tick), end it with [`finish`](Self::finish).
pub struct Flusher {
    ledger: Arc<Ledger>,
    settings: FlushSettings,
    /// What tells this run of this process from all others.
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
    /// A flusher of `ledger` that knows no Redis yet. A ledger has one at most.
    ///
    /// # Errors
    /// The system has no random numbers, without which two senders could take each other's batches for sent.
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

    /// Counts its calls of Redis in `stats`.
    #[must_use]
    pub fn counting(mut self, stats: Arc<RedisStats>) -> Self {
        self.stats = stats;
        self
    }

    /// Sends to that Redis from now on, within a timeout of its own; without one counts stay in memory. What waits to land goes along.
    /// Connects in tasks of the runtime that it is called in, with a connection and a breaker of its own: neither does
    /// an outage of decisions hold up counts, nor the other way round.
    ///
    /// # Errors
    /// A URL that cannot work, or no runtime. Nothing has changed then.
    pub fn send_to(&mut self, redis: Option<&RedisSettings>) -> Result<(), RedisSettingsError> {
        let client = redis.map(|settings| {
            let settings = RedisSettings { timeout: self.settings.timeout, ..settings.clone() };
            RedisClient::start_for(
                "usage waits until redis takes it",
                &settings,
                &Breakers::silent(),
                Arc::clone(&self.stats),
            )
        });
        self.client = client.transpose()?;
        self.pause = None;
        Ok(())
    }

    /// Takes what was counted and sends all that waits. Returns how long to wait before the next tick. May be
    /// cancelled: what was not sent by then is sent at the next one.
    pub async fn tick(&mut self) -> Duration {
        self.warn_of_overflow();
        if self.client.is_none() {
            self.ledger.sweep();
            return SWEEP_EVERY;
        }
        self.take();
        match self.send().await {
            Ok(()) => {
                if self.pause.take().is_some() {
                    tracing::info!("usage goes to redis again");
                }
                self.settings.every
            }
            Err(_) => {
                let pause = self.pause.map_or(PAUSES.0, |pause| (pause * 2).min(PAUSES.1));
                self.pause = Some(pause);
                jittered(pause)
            }
        }
    }

    /// Sends what is left, for `within` at most. Returns how many requests' counts did not reach Redis; none where
    /// there is no Redis to reach.
    pub async fn finish(mut self, within: Duration) -> u64 {
        if self.client.is_none() && self.queue.is_empty() {
            return 0;
        }
        let within = if self.client.is_some() { within } else { Duration::ZERO };
        let all = async {
            loop {
                self.take();
                if self.send().await.is_ok() && self.ledger.cells() == 0 {
                    return;
                }
                sleep(PAUSES.0).await;
            }
        };
        let _ = timeout(within, all).await;
        // Whatever is still being counted comes too late.
        self.take_all();
        let left = self.queue.iter().map(Batch::requests).sum();
        self.ledger.tally.lost.fetch_add(left, Relaxed);
        left
    }

    /// Makes a batch of what was counted, where there is room for one: what was counted will be counted again, and
    /// while a batch waits the same names take room in the ledger once more.
    fn take(&mut self) {
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
            self.tell_waiting();
        }
    }

    /// Sends batch after batch until one fails.
    async fn send(&mut self) -> Result<(), StoreError> {
        let client = self.client.as_ref().ok_or(StoreError::Disconnected)?;
        let tally = &self.ledger.tally;
        while let Some(batch) = self.queue.front_mut() {
            if batch.sent_at.is_some_and(|at| at.elapsed() > RESEND_FOR) {
                let requests = batch.requests();
                tracing::error!(requests, "usage is given up: nobody knows for a day whether redis has it");
                tally.lost.fetch_add(requests, Relaxed);
                self.ledger.release(batch.deltas.drain(..).map(|delta| delta.cells).sum());
            }
            while !batch.deltas.is_empty() {
                let some = &batch.deltas[..batch.deltas.len().min(PIPELINE)];
                let calls = script::calls(&self.sender, batch.number, some);
                // Noted before, since this may be cancelled.
                let before = batch.sent_at.replace(batch.sent_at.unwrap_or_else(Instant::now));
                let sent = client.run_all(Operation::Metering, &REQUEST_COUNTER, &calls).await;
                if !sent.iter().any(|reply| reply.as_ref().is_err_and(|unanswered| unanswered.may_have_run)) {
                    batch.sent_at = before;
                }
                let failure = conclude(&self.ledger, &mut batch.deltas, sent);
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

    fn tell_waiting(&self) {
        self.ledger.tally.waiting.store(self.queue.len(), Relaxed);
    }

    fn warn_of_overflow(&mut self) {
        let (known, warned) = &mut self.overflowed;
        let overflowed = self.ledger.status().overflowed;
        if overflowed > *known && warned.is_none_or(|at| at.elapsed() >= WARN_EVERY) {
            let requests = overflowed - *known;
            tracing::warn!(requests, "more keys than `metering.max-cells`: requests are counted under the key `#`");
            *warned = Some(Instant::now());
            *known = overflowed;
        }
    }
}

/// Counts what became of the first of `deltas`, takes those out whose fate is known, and gives their room back. Returns
/// why it is not known of the others.
fn conclude(ledger: &Ledger, deltas: &mut Vec<Delta>, sent: Vec<Result<Value, Unanswered>>) -> Option<StoreError> {
    let (mut landed, mut refused, mut room, mut example, mut failure) = (0, 0, 0, None, None);
    let mut sent = sent.into_iter();
    deltas.retain(|delta| {
        let Some(reply) = sent.next() else { return true };
        let fate = reply.map_err(|unanswered| unanswered.kind);
        match fate.and_then(|reply| script::fate(&reply).ok_or(StoreError::Other)) {
            Ok(Fate::Landed) => landed += delta.requests(),
            Ok(Fate::Refused) => {
                refused += delta.requests();
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
    ledger.tally.flushed.fetch_add(landed, Relaxed);
    if let Some(example) = example {
        ledger.tally.lost.fetch_add(refused, Relaxed);
        let key = String::from_utf8_lossy(&example);
        tracing::error!(requests = refused, %key, "usage cannot be added in redis: something else is stored there");
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
