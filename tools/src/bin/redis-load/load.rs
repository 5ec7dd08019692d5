//! Turn of a design: calls for a fixed time, and their cost.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;

use super::callers::Caller;
use super::server::{Server, Used};

/// Cost of a decision in one turn.
pub(crate) struct Turn {
    /// Decisions per second.
    pub(crate) rate: f64,
    pub(crate) redis_us: f64,
    pub(crate) caller_us: f64,
    /// Redis calls per decision.
    pub(crate) calls: f64,
    pub(crate) bytes: f64,
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
}

/// Key ids in the format of `redis-benchmark`.
pub(crate) type Ids = Arc<[[u8; 12]]>;

pub(crate) fn ids(keys: usize) -> Ids {
    (0..keys).map(|number| format!("{number:012}").into_bytes().try_into().expect("12 digits")).collect()
}

/// Runs `tasks` concurrent callers for the duration of `turn`.
pub(crate) fn run(
    server: &Server,
    runtime: &Runtime,
    caller: &Caller,
    ids: &Ids,
    tasks: usize,
    turn: Duration,
) -> Turn {
    let (before, own) = (server.used(), own_cpu());
    let start = Instant::now();
    let all = runtime.block_on(async {
        let tasks: Vec<_> = (0..tasks)
            .map(|task| tokio::spawn(call_until(caller.clone(), Arc::clone(ids), task as u64, start + turn)))
            .collect();
        let mut all = Vec::new();
        for task in tasks {
            all.push(task.await.unwrap());
        }
        all
    });
    let (took, own) = (start.elapsed(), own_cpu() - own);
    let mut waits_ns: Vec<u32> = all.concat();
    let decisions = waits_ns.len() as f64;
    let mut part = |of: f64| {
        let at = (decisions * of) as usize;
        f64::from(*waits_ns.select_nth_unstable(at).1) / 1_000.0
    };
    let (p50_us, p99_us) = (part(0.5), part(0.99));
    let rate = decisions / took.as_secs_f64();
    Turn::new(&before, &server.used(), decisions, own, [rate, p50_us, p99_us])
}

/// Calls until `end` and returns the duration of each decision in nanoseconds.
async fn call_until(mut caller: Caller, ids: Ids, task: u64, end: Instant) -> Vec<u32> {
    let mut waits_ns = Vec::with_capacity(1 << 14);
    let mut random = (task + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let mut now = Instant::now();
    while now < end {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        caller.decide(&ids[(random % ids.len() as u64) as usize]).await;
        let then = std::mem::replace(&mut now, Instant::now());
        waits_ns.push((now - then).as_nanos().try_into().unwrap_or(u32::MAX));
    }
    waits_ns
}

impl Turn {
    pub(crate) fn new(
        before: &Used,
        after: &Used,
        decisions: f64,
        own: Duration,
        [rate, p50_us, p99_us]: [f64; 3],
    ) -> Self {
        let each = |time: Duration| time.as_secs_f64() * 1e6 / decisions;
        Self {
            rate,
            redis_us: each(after.cpu - before.cpu),
            caller_us: each(own),
            calls: (after.calls - before.calls) as f64 / decisions,
            bytes: (after.bytes - before.bytes) as f64 / decisions,
            p50_us,
            p99_us,
        }
    }
}

/// Returns the processor time of all threads: proc_pid_schedstat(5).
fn own_cpu() -> Duration {
    let threads = std::fs::read_dir("/proc/self/task").unwrap();
    let of = |thread: std::io::Result<std::fs::DirEntry>| -> u64 {
        let text = std::fs::read_to_string(thread.unwrap().path().join("schedstat")).unwrap();
        text.split(' ').next().unwrap().parse().unwrap()
    };
    Duration::from_nanos(threads.map(of).sum())
}

/// Returns the processor time of all finished child processes, in ticks of 10 ms.
pub(crate) fn children_cpu() -> Duration {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields = text.rsplit_once(") ").unwrap().1.split(' ').skip(13).take(2);
    Duration::from_millis(fields.map(|ticks| ticks.parse::<u64>().unwrap() * 10).sum())
}
