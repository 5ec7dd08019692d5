//! `tollgate simulate [FILE] LOG…`: replay of access logs.

use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use crate::app::source;
use crate::cli::load;
use crate::cli::logs::LogArguments;
use crate::cli::report::{fail, json, usage, write};
use tollgate_config::{CommandLine, Config};
use tollgate_simulate::gate::{Gate, GateOutcome};
use tollgate_simulate::html;
use tollgate_simulate::run::{Log, Progress, simulate};

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
pub(super) fn with_progress<T>(work: impl FnOnce(&mut dyn FnMut(Progress)) -> T) -> T {
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
