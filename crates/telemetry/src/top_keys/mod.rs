//! Keys that limiters deny, observe and allow most often, for each rule.
//!
//! Each worker counts in sketches of its own, without a lock: they belong to the worker's thread. A reader sends a
//! [`Query`] to each worker and merges the responses ([`Readers::read`]). A sketch covers one minute; the response covers
//! the current one and the one before, so one to two minutes, or the time since the start if that is shorter.

mod merge;
mod sketch;
#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

pub use self::merge::{RuleTop, Top};
pub use self::sketch::KeyCount;
use self::sketch::{MAX_ENTRIES, Sketch};

/// Time that one sketch covers.
const WINDOW: Duration = Duration::from_secs(60);
/// Entries of all sketches of a worker in one window, about 150 bytes each. With more than 85 rules, [`MIN_ENTRIES`] for
/// each rule and verdict can exceed it.
const ENTRIES_PER_WORKER: usize = 16 * 1024;
/// Lower bound of the entries of a sketch.
const MIN_ENTRIES: usize = 64;
/// Time that a read waits for workers.
const READ_TIMEOUT: Duration = Duration::from_secs(1);
/// Queries that wait for a worker.
const MAX_WAITING: usize = 16;

/// Verdict whose keys are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CountedVerdict {
    /// Denied requests.
    Denied,
    /// Requests that an observed rule would have denied.
    Observed,
    /// Allowed requests.
    Allowed,
}

/// Rule whose keys are counted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RuleName {
    /// Id of the route.
    pub route: Arc<str>,
    /// Name of the rule, as in `/api/limits`.
    pub rule: Arc<str>,
    /// Plan of the rule; `None` for requests without a plan.
    pub plan: Option<Arc<str>>,
}

/// Question for the most frequent keys.
#[derive(Clone, Debug)]
pub struct Query {
    /// Verdicts, whose counts are summed.
    pub verdicts: &'static [CountedVerdict],
    /// Route; `None` for all.
    pub route: Option<String>,
    /// Name of the rule; `None` for all.
    pub rule: Option<String>,
    /// Number of keys for each rule.
    pub limit: usize,
}

/// Response of one worker: one sketch each.
#[derive(Debug)]
struct SketchTop {
    name: RuleName,
    total: u64,
    keys: Vec<KeyCount>,
    /// Upper bound for the count of every other key.
    others: u64,
}

/// Response of one worker.
#[derive(Debug)]
struct WorkerTop {
    covered: Duration,
    sketches: Vec<SketchTop>,
}

/// Handle of a rule's sketches, valid on the thread that registered it. The sketches of a rule without handles are
/// dropped once their windows have ended.
#[derive(Clone, Debug)]
pub struct RuleHandle {
    slot: usize,
    _in_use: Arc<()>,
}

/// Queries for one worker.
pub type Queries = mpsc::Receiver<Request>;

/// A query and the channel for its response.
#[derive(Debug)]
pub struct Request {
    query: Query,
    reply: oneshot::Sender<WorkerTop>,
}

/// Senders of queries to the workers.
#[derive(Debug, Default)]
pub struct Readers(Vec<mpsc::Sender<Request>>);

/// Sketches of one worker.
#[derive(Debug)]
struct WorkerKeys {
    /// Rules by the slot of their handles.
    rules: Vec<Option<RuleKeys>>,
    /// Slots by the name of their rule.
    slots: HashMap<RuleName, usize>,
    /// Empty slots, which are used again.
    vacant: Vec<usize>,
    /// Start of the current window, and of the one before.
    started: Instant,
    before: Instant,
}

#[derive(Debug)]
struct RuleKeys {
    name: RuleName,
    /// Shared with the handles.
    in_use: Arc<()>,
    current: [Option<Box<Sketch>>; CountedVerdict::ALL.len()],
    previous: [Option<Box<Sketch>>; CountedVerdict::ALL.len()],
}

thread_local! {
    static KEYS: RefCell<WorkerKeys> = RefCell::new(WorkerKeys::new(Instant::now()));
}

/// Returns the handle of a rule on this thread.
pub fn register(name: RuleName) -> RuleHandle {
    KEYS.with_borrow_mut(|keys| keys.register(name))
}

/// Counts a verdict on `key`. Must be called on the thread of `rule`.
#[inline]
pub fn observe(rule: &RuleHandle, verdict: CountedVerdict, key: &[u8]) {
    KEYS.with_borrow_mut(|keys| keys.observe(rule, verdict, key));
}

/// Starts a new window once a minute. Call it once a second on each worker.
pub fn tick() {
    KEYS.with_borrow_mut(|keys| keys.tick(Instant::now()));
}

/// Serves the queries for the worker of this thread, until the readers are dropped.
pub async fn answer(mut queries: Queries) {
    while let Some(Request { query, reply }) = queries.recv().await {
        let _ = reply.send(KEYS.with_borrow(|keys| keys.read(&query, Instant::now())));
    }
}

impl Readers {
    /// Adds a worker. Returns the receiver of its queries.
    pub fn add(&mut self) -> Queries {
        let (sender, queries) = mpsc::channel(MAX_WAITING);
        self.0.push(sender);
        queries
    }

    /// Asks every worker and merges the responses. Workers that do not respond within a second are left out.
    pub async fn read(&self, query: &Query) -> Top {
        let mut replies = Vec::with_capacity(self.0.len());
        for sender in &self.0 {
            let (reply, top) = oneshot::channel();
            if sender.try_send(Request { query: query.clone(), reply }).is_ok() {
                replies.push(top);
            }
        }
        let deadline = Instant::now() + READ_TIMEOUT;
        let mut of_workers = Vec::with_capacity(replies.len());
        for reply in replies {
            if let Ok(Ok(top)) = tokio::time::timeout_at(deadline, reply).await {
                of_workers.push(top);
            }
        }
        merge::merge(of_workers, self.0.len(), query.limit)
    }
}

impl CountedVerdict {
    /// Every verdict, in the order of declaration.
    pub const ALL: [Self; 3] = [Self::Denied, Self::Observed, Self::Allowed];

    /// Returns its name, as in metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Denied => "denied",
            Self::Observed => "observed",
            Self::Allowed => "allowed",
        }
    }
}

impl WorkerKeys {
    fn new(now: Instant) -> Self {
        Self { rules: Vec::new(), slots: HashMap::new(), vacant: Vec::new(), started: now, before: now }
    }

    fn register(&mut self, name: RuleName) -> RuleHandle {
        let handle = |slot, in_use: &Arc<()>| RuleHandle { slot, _in_use: Arc::clone(in_use) };
        if let Some(&slot) = self.slots.get(&name)
            && let Some(Some(rule)) = self.rules.get(slot)
        {
            return handle(slot, &rule.in_use);
        }
        let slot = self.vacant.pop().unwrap_or_else(|| {
            self.rules.push(None);
            self.rules.len() - 1
        });
        self.slots.insert(name.clone(), slot);
        let in_use = Arc::default();
        let registered = handle(slot, &in_use);
        self.rules[slot] = Some(RuleKeys { name, in_use, current: Default::default(), previous: Default::default() });
        registered
    }

    #[inline]
    fn observe(&mut self, rule: &RuleHandle, verdict: CountedVerdict, key: &[u8]) {
        let rules = self.slots.len();
        if let Some(Some(rule)) = self.rules.get_mut(rule.slot) {
            rule.current[verdict as usize].get_or_insert_with(|| Box::new(new_sketch(rules))).observe(key);
        }
    }

    /// Starts a new window if the current one has ended, and drops rules that are gone and have no counts.
    fn tick(&mut self, now: Instant) {
        if now.saturating_duration_since(self.started) < WINDOW {
            return;
        }
        (self.before, self.started) = (self.started, now);
        for (number, slot) in self.rules.iter_mut().enumerate() {
            let Some(rule) = slot else { continue };
            rule.previous = std::mem::take(&mut rule.current);
            if Arc::strong_count(&rule.in_use) == 1 && rule.previous.iter().all(Option::is_none) {
                self.slots.remove(&rule.name);
                self.vacant.push(number);
                *slot = None;
            }
        }
    }

    fn read(&self, query: &Query, now: Instant) -> WorkerTop {
        let is_selected = |filter: &Option<String>, name: &str| filter.as_ref().is_none_or(|filter| filter == name);
        let selected =
            self.rules.iter().flatten().filter(|rule| {
                is_selected(&query.route, &rule.name.route) && is_selected(&query.rule, &rule.name.rule)
            });
        // More than asked for: a key may be further down in the sketch of another worker.
        let most = query.limit.saturating_mul(4);
        let of_rule = |rule: &RuleKeys| {
            let of_verdict = |verdict: &CountedVerdict| {
                let verdict = *verdict as usize;
                [&rule.current[verdict], &rule.previous[verdict]].into_iter().flatten().map(|sketch| &**sketch)
            };
            let sketches = query.verdicts.iter().flat_map(of_verdict);
            let read = |sketch: &Sketch| {
                let (keys, others) = sketch.top(most);
                SketchTop { name: rule.name.clone(), total: sketch.total(), keys, others }
            };
            sketches.map(read).collect::<Vec<_>>()
        };
        WorkerTop {
            covered: now.saturating_duration_since(self.before),
            sketches: selected.flat_map(of_rule).collect(),
        }
    }
}

/// Creates a sketch for one of `rules`. All of them together stay within [`ENTRIES_PER_WORKER`], or within three times
/// [`MIN_ENTRIES`] for each rule if that is more.
#[cold]
fn new_sketch(rules: usize) -> Sketch {
    let share = ENTRIES_PER_WORKER / (rules * CountedVerdict::ALL.len()).max(1);
    Sketch::new(share.clamp(MIN_ENTRIES, MAX_ENTRIES))
}
