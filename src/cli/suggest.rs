//! `tollgate suggest [FILE] LOG…`: limits for the clients of access logs.

use std::process::ExitCode;

use clap::Args;

use crate::cli::load;
use crate::cli::logs::LogArguments;
use crate::cli::report::{json, usage, write};
use crate::cli::simulate::with_progress;
use tollgate_config::{CommandLine, Config};
use tollgate_simulate::gate::Share;
use tollgate_simulate::run::{self, Log};
use tollgate_simulate::suggest::{for_log_alone, measure_only};

#[derive(Debug, Args)]
#[command(override_usage = "tollgate suggest [OPTIONS] [FILE] <LOG>...")]
pub(super) struct Arguments {
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

impl Arguments {
    /// Returns true if the arguments name a configuration file.
    pub(super) fn names_files(&self) -> bool {
        self.logs.names_files()
    }
}

/// Prints YAML with the limits, or JSON. The exit code is 0; 1 if the configuration has errors; 2 if a file cannot be read,
/// a key resolver is not valid, a field of `--map` is in no line, or no line can be used.
pub(super) fn run(arguments: &Arguments, command_line: CommandLine) -> Result<ExitCode, ExitCode> {
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

fn suggest(arguments: &Arguments, config: &Config, by_logged_route: bool) -> Result<ExitCode, ExitCode> {
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
