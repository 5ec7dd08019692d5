//! Turn of a design: calls for a fixed time, and their cost.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;
use tollgate_tools::error::ToolError;
use tollgate_tools::redis_server::first_number;

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
    let digit = |number: usize, place: u32| b"0123456789"[number / 10_usize.pow(place) % 10];
    (0..keys).map(|number| std::array::from_fn(|at| digit(number, 11 - at as u32))).collect()
}

/// Runs `tasks` concurrent callers for the duration of `turn`.
pub(crate) fn run(
    server: &Server,
    runtime: &Runtime,
    caller: &Caller,
    ids: &Ids,
    tasks: usize,
    turn: Duration,
) -> Result<Turn, ToolError> {
    let (before, own) = (server.used()?, own_cpu()?);
    let start = Instant::now();
    let all = runtime.block_on(async {
        let tasks: Vec<_> = (0..tasks)
            .map(|task| tokio::spawn(call_until(caller.clone(), Arc::clone(ids), task as u64, start + turn)))
            .collect();
        let mut all = Vec::new();
        for task in tasks {
            all.push(task.await??);
        }
        Ok::<_, ToolError>(all)
    })?;
    let (took, own) = (start.elapsed(), own_cpu()? - own);
    let mut waits_ns: Vec<u32> = all.concat();
    let decisions = waits_ns.len() as f64;
    if waits_ns.is_empty() {
        return Err(ToolError::WithoutRedis);
    }
    let mut part = |of: f64| {
        let at = (decisions * of) as usize;
        f64::from(*waits_ns.select_nth_unstable(at).1) / 1_000.0
    };
    let (p50_us, p99_us) = (part(0.5), part(0.99));
    let rate = decisions / took.as_secs_f64();
    Ok(Turn::new(&before, &server.used()?, decisions, own, [rate, p50_us, p99_us]))
}

/// Calls until `end` and returns the duration of each decision in nanoseconds.
async fn call_until(mut caller: Caller, ids: Ids, task: u64, end: Instant) -> Result<Vec<u32>, ToolError> {
    let mut waits_ns = Vec::with_capacity(1 << 14);
    let mut random = (task + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let mut now = Instant::now();
    while now < end {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        caller.decide(&ids[(random % ids.len() as u64) as usize]).await?;
        let then = std::mem::replace(&mut now, Instant::now());
        waits_ns.push((now - then).as_nanos().try_into().unwrap_or(u32::MAX));
    }
    Ok(waits_ns)
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
fn own_cpu() -> Result<Duration, ToolError> {
    let of = |thread: std::io::Result<std::fs::DirEntry>| -> Result<u64, ToolError> {
        first_number(&std::fs::read_to_string(thread?.path().join("schedstat"))?)
    };
    let times = std::fs::read_dir("/proc/self/task")?.map(of).collect::<Result<Vec<_>, _>>()?;
    Ok(Duration::from_nanos(times.into_iter().sum()))
}

/// Returns the processor time of all finished child processes, in ticks of 10 ms.
pub(crate) fn children_cpu() -> Result<Duration, ToolError> {
    let text = std::fs::read_to_string("/proc/self/stat")?;
    let unexpected = || ToolError::form("/proc/self/stat", &text);
    let (_, fields) = text.rsplit_once(") ").ok_or_else(unexpected)?;
    let ticks = fields.split(' ').skip(13).take(2).map(|ticks| ticks.parse::<u64>().map_err(|_| unexpected()));
    Ok(Duration::from_millis(ticks.sum::<Result<u64, _>>()? * 10))
}
