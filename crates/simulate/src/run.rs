//! A whole replay: logs, one or two configurations, the comparison of their verdicts, and the report.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::gate::{Gate, Share};
use crate::input::{InputStats, Inputs, LogEntry, LogTime, Ordered, Slot};
use crate::log_facts::{LogFacts, may_read_header};
use crate::replay::{Replay, ReplayTimes};
use crate::report::{Comparison, Outcome, Report, RuleComparison, time};
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
pub struct Log {
    /// The logs.
    pub inputs: Inputs,
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
    log: Log,
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
    log: Log,
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
    Log { mut inputs, rate }: Log,
    measure: impl Fn(&Config) -> Option<Measurement>,
    mut on_progress: impl FnMut(Progress),
) -> Replayed {
    let mut log_facts = LogFacts::of(&inputs.map, inputs.is_json());
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

/// Route and rule that refused a request.
pub(super) type Refusal = (Arc<str>, Arc<str>);

/// Finished requests by number, with the rule that refused them.
pub(super) type Finished = Vec<(u64, Option<Refusal>)>;

/// Comparison of the verdicts of two configurations.
#[derive(Default)]
struct Comparing {
    /// Requests that only the first or the second configuration has finished.
    unmatched: [HashMap<u64, Option<Refusal>>; 2],
    totals: Comparison,
    /// Newly denied and newly allowed requests by rule.
    rules: BTreeMap<Refusal, (u64, u64)>,
}

impl Comparing {
    /// Counts the requests that both configurations have finished. Others wait. A single configuration is not compared.
    pub(super) fn add(&mut self, finished: &mut [Finished]) {
        let [first, second] = finished else { return finished.iter_mut().for_each(Vec::clear) };
        let Self { unmatched: [first_left, second_left], totals, rules } = self;
        let mut count = |first: Option<Refusal>, second: Option<Refusal>| match (first, second) {
            (Some(rule), None) => {
                totals.newly_denied += 1;
                rules.entry(rule).or_default().0 += 1;
            }
            (None, Some(rule)) => {
                totals.newly_allowed += 1;
                rules.entry(rule).or_default().1 += 1;
            }
            (Some(_), Some(_)) => totals.denied_by_both += 1,
            (None, None) => totals.allowed_by_both += 1,
        };
        first_left.extend(first.drain(..));
        second_left.extend(second.drain(..));
        let both: Vec<u64> = second_left.keys().filter(|number| first_left.contains_key(number)).copied().collect();
        for number in both {
            if let (Some(first), Some(second)) = (first_left.remove(&number), second_left.remove(&number)) {
                count(first, second);
            }
        }
    }

    /// Returns the result.
    pub(super) fn finish(self) -> Comparison {
        let rule = |((route, rule), (newly_denied, newly_allowed)): (Refusal, (u64, u64))| RuleComparison {
            route: route.to_string(),
            rule: rule.to_string(),
            newly_denied,
            newly_allowed,
        };
        Comparison { rules: self.rules.into_iter().map(rule).collect(), ..self.totals }
    }
}
