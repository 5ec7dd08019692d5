//! A whole replay: logs, one or two configurations, and the report.

use crate::compare::{Comparing, Finished};
use crate::gate::{Gate, Share};
use crate::input::{InputStats, Inputs, LogEntry, LogTime, Map, Ordered, Slot};
use crate::log_facts::{LogFacts, may_read_header};
use crate::replay::{Replay, ReplayTimes};
use crate::report::{Outcome, Report, time};
use crate::suggest::{Measurement, Suggestions};
use tollgate_config::Config;

/// Requests between two calls of the progress function.
const PROGRESS_EVERY: u64 = 16_384;

/// Progress of a simulation.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Requests that were replayed.
    pub requests: u64,
    /// Share of the files that has been read, from 0 to 1; `None` for standard input.
    pub share: Option<f64>,
}

/// Logs and the speed at which they are replayed.
pub struct Log<'l> {
    /// The logs.
    pub inputs: Inputs,
    /// Names of their fields.
    pub map: &'l Map,
    /// Factor of the rate of requests.
    pub rate: f64,
}

/// Replays at the end of the log.
struct Replayed {
    replays: Vec<Replay>,
    input: InputStats,
    from: Option<String>,
    to: Option<String>,
    comparing: Comparing,
}

/// Replays `log` through `configurations`, each with the name of its file; the first is compared with the second, and with
/// `gates`.
pub fn simulate(
    configurations: &[(&str, &Config)],
    log: Log<'_>,
    gates: &[Gate],
    on_progress: impl FnMut(Progress),
) -> Report {
    let rate = log.rate;
    let Replayed { replays, input, from, to, comparing } = replay(configurations, log, |_| None, on_progress);
    let configurations: Vec<_> = replays.into_iter().map(Replay::finish).collect();
    let gates = configurations
        .first()
        .into_iter()
        .flat_map(|outcome| gates.iter().map(|gate| gate.judge(outcome, input.broken)));
    let gates = gates.collect();
    let comparison = (configurations.len() > 1).then(|| comparing.finish());
    Report { input, from, to, rate, gates, comparison, configurations }
}

/// Suggests a limit for each route and key of `log`, and each share of clients that it may touch. The limiters of `config`
/// deny nothing ([`measure_only`](crate::suggest::measure_only)). With `by_logged_route`, requests count under the routes in
/// the log.
pub fn suggest(
    config: &Config,
    by_logged_route: bool,
    log: Log<'_>,
    shares: &[Share],
    on_progress: impl FnMut(Progress),
) -> Suggestions {
    let measure = |config: &Config| Some(Measurement::of(config, by_logged_route));
    let Replayed { mut replays, input, from, to, .. } = replay(&[("", config)], log, measure, on_progress);
    let measurement = replays.first_mut().and_then(|replay| replay.measurement.take());
    let without_key = measurement.as_ref().map_or(0, |measurement| measurement.without_key);
    let routes = measurement.map(|measurement| measurement.finish(shares)).unwrap_or_default();
    let outcome = replays.into_iter().next().map(Replay::finish).unwrap_or_default();
    let Outcome { unrouted, undetermined, notes, .. } = outcome;
    Suggestions { input, from, to, unrouted, undetermined, without_key, routes, notes }
}

/// Replays `log` through `configurations`. Their requests are measured if `measure` says so.
fn replay(
    configurations: &[(&str, &Config)],
    Log { mut inputs, map, rate }: Log<'_>,
    measure: impl Fn(&Config) -> Option<Measurement>,
    mut on_progress: impl FnMut(Progress),
) -> Replayed {
    let mut log_facts = LogFacts::of(map, inputs.is_json());
    log_facts.hashes_keys =
        log_facts.is_tollgate_log && configurations.iter().any(|(_, config)| config.management.key_hashing.is_some());
    let prepared = configurations.iter().map(|(file, config)| {
        let mut replay = Replay::new(file, config, &log_facts);
        replay.measurement = measure(config);
        replay
    });
    let mut replays: Vec<Replay> = prepared.collect();
    inputs.skip_fields(|slot| match slot {
        Slot::Header(name) => configurations.iter().any(|(_, config)| may_read_header(config, name)),
        slot => replays.iter().any(|replay| replay.reads(slot)),
    });
    let mut ordered = Ordered::new(inputs);
    let mut comparing = Comparing::default();
    let mut finished = vec![Finished::new(); replays.len()];
    let mut decided = Vec::new();
    let (mut first_us, mut last_us, mut requests) = (None, None, 0_u64);
    while let Some(entry) = ordered.next_entry() {
        let start_us = *first_us.get_or_insert(entry.at().us);
        last_us = Some(entry.at().us);
        let times = scaled(&entry, ordered.next_at(), start_us, rate, &mut decided);
        for (replay, finished) in replays.iter_mut().zip(&mut finished) {
            replay.run(requests, &entry, &times, finished);
        }
        comparing.add(&mut finished);
        ordered.recycle(entry);
        requests += 1;
        if requests.is_multiple_of(PROGRESS_EVERY) {
            on_progress(Progress { requests, share: ordered.inputs.progress() });
        }
    }
    for (replay, finished) in replays.iter_mut().zip(&mut finished) {
        replay.advance(LogTime::MAX, finished);
    }
    comparing.add(&mut finished);
    let (lacking_fields, first_fields) = ordered.inputs.lacking_fields();
    let input = InputStats { lacking_fields, first_fields, ..ordered.inputs.stats };
    Replayed { replays, input, from: first_us.and_then(time), to: last_us.and_then(time), comparing }
}

/// Returns the times of a request at `rate` times the speed of the log, which starts at `start_us`. `decided` is the memory
/// for times that change.
fn scaled<'t>(
    entry: &'t LogEntry,
    next: Option<LogTime>,
    start_us: u64,
    rate: f64,
    decided: &'t mut Vec<LogTime>,
) -> ReplayTimes<'t> {
    #[expect(clippy::float_cmp, reason = "an exact rate of 1 keeps the times exact")]
    if rate == 1.0 {
        return ReplayTimes { horizon: next.unwrap_or(LogTime::MAX), now: entry.at(), decided: &entry.decided };
    }
    let scale = |time: LogTime| {
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "rounded to a microsecond"
        )]
        let elapsed_us = (time.us.saturating_sub(start_us) as f64 / rate) as u64;
        LogTime { us: start_us.saturating_add(elapsed_us), order: 0 }
    };
    decided.clear();
    decided.extend(entry.decided.iter().copied().map(scale));
    ReplayTimes { horizon: next.map_or(LogTime::MAX, scale), now: scale(entry.at()), decided }
}
