//! `tollgate simulate [FILE] LOG…`: replay of access logs. `tollgate suggest [FILE] LOG…`: limits for the clients of access
//! logs.

use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use crate::app::source;
use crate::cli::load::{self, Selection};
use crate::cli::report::{fail, json, usage, write};
use tollgate_config::{CommandLine, Config};
use tollgate_simulate::gate::{Gate, GateOutcome, Share};
use tollgate_simulate::html;
use tollgate_simulate::input::{Inputs, Map};
use tollgate_simulate::run::{self, Log, Progress, simulate};
use tollgate_simulate::suggest::{for_log_alone, measure_only};

#[derive(Debug, Args)]
#[command(override_usage = "tollgate simulate [OPTIONS] [FILE] <LOG>...")]
pub(super) struct Arguments {
    #[command(flatten)]
    logs: LogArguments,
    /// Configuration to compare FILE with; shows requests that only FILE denies, or only FILE allows (repeatable; values of later files win)
    #[arg(long, value_name = "FILE")]
    compare: Vec<PathBuf>,
    /// Replay N times as fast as the log, such as 2, x2 or 0.5
    #[arg(long, value_name = "xN", default_value = "1", value_parser = rate)]
    rate: f64,
    /// Exit with 1 if FILE denies a larger share of all requests, such as 1%, 0.05% or 0; ROUTE=SHARE is the bound of a route (repeatable)
    #[arg(long, value_name = "[ROUTE=]SHARE", value_parser = Gate::parse)]
    max_denied: Vec<Gate>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Write a report with charts as one HTML file
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
}

impl Arguments {
    /// Returns true if the arguments name a configuration file.
    pub(super) fn names_files(&self) -> bool {
        self.logs.names_files() || !self.compare.is_empty()
    }
}

/// Parses a factor from 1e-6 to 1e6, with an optional `x` in front.
fn rate(text: &str) -> Result<f64, String> {
    let number = text.trim_start_matches(['x', 'X', '×']).parse::<f64>();
    let valid = number.ok().filter(|number| (1e-6..=1e6).contains(number));
    valid.ok_or_else(|| "not a factor such as 2, x2 or 0.5, from 0.000001 to 1000000".to_owned())
}

/// Prints the result to standard output. The exit code is 0; 1 if a configuration has errors, or a share is above
/// `--max-denied`; 2 if a file cannot be read, a field of `--map` is in no line, no line can be used, or a bound names an
/// unknown route or a log without a request that a limiter decides.
pub(super) fn run(arguments: &Arguments, command_line: CommandLine) -> Result<ExitCode, ExitCode> {
    let LogArguments { selection, .. } = &arguments.logs;
    let command_line = selection.with_profiles(command_line);
    let mut configurations = vec![selection.files(arguments.logs.file().cloned(), &command_line)?];
    configurations.extend(Some(arguments.compare.clone()).filter(|files| !files.is_empty()));
    let mut loaded = Vec::new();
    for files in &configurations {
        loaded.push((source::names(files, &command_line), load::load(files, &command_line)?.config));
    }
    let routes = loaded.first().map(|(_, config)| config.routes.as_slice()).unwrap_or_default();
    let mut bounded = arguments.max_denied.iter().filter_map(Gate::route);
    if let Some(unknown) = bounded.find(|id| !routes.iter().any(|route| *route.id == **id)) {
        return Err(usage(format_args!("--max-denied: no route has the id `{}`", unknown.escape_debug())));
    }
    replay(arguments, &loaded)
}

/// Replays the logs through the configurations, each with its name, and prints the result.
fn replay(arguments: &Arguments, loaded: &[(String, Config)]) -> Result<ExitCode, ExitCode> {
    let inputs = arguments.logs.open()?;
    let configurations: Vec<_> = loaded.iter().map(|(file, config)| (file.as_str(), config)).collect();
    let log = Log { inputs, rate: arguments.rate };
    let result = with_progress(|on_progress| simulate(&configurations, log, &arguments.max_denied, on_progress));
    if let Some(missing) = result.input.missing_fields() {
        return Err(usage(missing));
    }
    if let Some(path) = &arguments.report
        && let Err(error) = std::fs::write(path, html::page(&result))
    {
        return Err(usage(format_args!("cannot write {}: {error}", path.display())));
    }
    let written = write(&if arguments.json { json(&result) } else { result.to_string() });
    if written == ExitCode::SUCCESS && result.input.broken == result.input.lines {
        return Err(usage("no line of the logs can be used"));
    }
    if !result.gates.is_empty() && !result.reaches_limiters() {
        return Err(usage(
            "--max-denied: no request of the log was decided by a limiter: use a log of the routes with limits, and name \
             the fields of its lines with `--map` (`--json` counts those without a route)",
        ));
    }
    let failed: Vec<_> = result.gates.iter().filter(|gate| !gate.passed).map(GateOutcome::to_string).collect();
    Ok(if failed.is_empty() { written } else { fail(1, &format!("--max-denied: {}", failed.join("; "))) })
}

/// Calls `work` with a function that shows its progress, if standard error is a terminal.
fn with_progress<T>(work: impl FnOnce(&mut dyn FnMut(Progress)) -> T) -> T {
    let is_shown = io::stderr().is_terminal();
    let result = work(&mut |progress| {
        if is_shown {
            show(progress);
        }
    });
    if is_shown {
        eprint!("\r\x1b[K");
    }
    result
}

/// Shows the progress in one line of standard error.
fn show(progress: Progress) {
    const WIDTH: usize = 30;
    match progress.share {
        Some(share) => {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of the width")]
            let done = ((share.clamp(0.0, 1.0) * WIDTH as f64) as usize).min(WIDTH);
            let bar = "#".repeat(done) + &" ".repeat(WIDTH - done);
            eprint!("\r[{bar}] {:3.0} %, {} requests", share * 100.0, progress.requests);
        }
        None => eprint!("\r{} requests", progress.requests),
    }
}

/// A configuration and access logs.
#[derive(Debug, Args)]
struct LogArguments {
    /// FILE: configuration with the routes, the first of several names. LOG: access logs, plain or gzip; `-` is standard input. Formats: Tollgate's JSON, common, combined, or other JSON with --map
    #[arg(value_names = ["FILE", "LOG"], num_args = 1.., required = true)]
    names: Vec<PathBuf>,
    /// Fields of other JSON logs: time=ts,client=remote_addr,method=verb,path=uri,host=host,header.X-Api-Key=key
    #[arg(long, value_name = "PART=FIELD,…", value_parser = Map::parse)]
    map: Option<Map>,
    #[command(flatten)]
    selection: Selection,
}

impl LogArguments {
    /// Returns true if the arguments name a configuration file.
    fn names_files(&self) -> bool {
        self.file().is_some() || self.selection.names_files()
    }

    /// Returns FILE. A single name is a log.
    fn file(&self) -> Option<&PathBuf> {
        self.names.first().filter(|_| self.names.len() > 1)
    }

    /// Opens the logs.
    fn open(&self) -> Result<Inputs, ExitCode> {
        let logs = &self.names[usize::from(self.names.len() > 1)..];
        Inputs::open(logs, self.map.clone().unwrap_or_default()).map_err(usage)
    }
}

#[derive(Debug, Args)]
#[command(override_usage = "tollgate suggest [OPTIONS] [FILE] <LOG>...")]
pub(super) struct SuggestArguments {
    #[command(flatten)]
    logs: LogArguments,
    /// Key resolver by which clients are told apart (repeatable) [default: those of the route's limiters, otherwise ip]
    #[arg(long, value_name = "RESOLVER")]
    key: Vec<String>,
    /// Share of clients that a limit may touch, such as 1% or 0 (repeatable)
    #[arg(long, value_name = "SHARE", default_values = ["1%", "0.1%"], value_parser = Share::parse)]
    touch: Vec<Share>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl SuggestArguments {
    /// Returns true if the arguments name a configuration file.
    pub(super) fn names_files(&self) -> bool {
        self.logs.names_files()
    }
}

/// Prints YAML with the limits, or JSON. The exit code is 0; 1 if the configuration has errors; 2 if a file cannot be read,
/// a key resolver is not valid, a field of `--map` is in no line, or no line can be used.
pub(super) fn suggest_limits(arguments: &SuggestArguments, command_line: CommandLine) -> Result<ExitCode, ExitCode> {
    let command_line = arguments.logs.selection.with_profiles(command_line);
    let has_configuration = arguments.names_files() || command_line.has_location();
    let config = if has_configuration {
        let files = arguments.logs.selection.files(arguments.logs.file().cloned(), &command_line)?;
        Ok(load::load(&files, &command_line)?.config)
    } else {
        for_log_alone(&arguments.key)
    };
    let prepared = config.and_then(|mut config| {
        let keys = if has_configuration { arguments.key.as_slice() } else { &[] };
        measure_only(&mut config, keys).map(|()| config)
    });
    let config = prepared.map_err(|problem| usage(format_args!("--key: {problem}")))?;
    suggest(arguments, &config, !has_configuration)
}

fn suggest(arguments: &SuggestArguments, config: &Config, by_logged_route: bool) -> Result<ExitCode, ExitCode> {
    let log = Log { inputs: arguments.logs.open()?, rate: 1.0 };
    let result = with_progress(|on_progress| run::suggest(config, by_logged_route, log, &arguments.touch, on_progress));
    if let Some(missing) = result.input.missing_fields() {
        return Err(usage(missing));
    }
    let written = write(&if arguments.json { json(&result) } else { result.to_string() });
    if written == ExitCode::SUCCESS && result.input.broken == result.input.lines {
        return Err(usage("no line of the logs can be used"));
    }
    Ok(written)
}
