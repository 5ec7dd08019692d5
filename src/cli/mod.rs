//! Command line: one file per command, or per group of short ones.

mod admin_client;
mod admin_connection;
pub mod check;
mod connect;
mod drain;
mod explain;
mod keys;
mod limits;
mod load;
mod logs;
mod migrate;
mod names;
mod properties;
mod report;
mod serve;
mod simulate;
mod status;
mod suggest;
mod top;

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory as _, Parser, Subcommand};
use clap_complete::Shell;

use self::load::Selection;
use crate::app::signals::HeldSignals;
use crate::app::source::Source;
use crate::version::TEXT;
use tollgate_config::{CommandLine, MAX_SHOWN};

/// Help text below the options.
const PROPERTIES: &str = "Properties, as in Spring Boot:\n  --NAME=VALUE  Sets a property whose NAME has a dot; it wins over \
                          the environment and all files: --server.port=9000, --spring.profiles.active=prod, \
                          --spring.config.location=FILES, --spring.config.additional-location=FILES";

/// A rate-limiting HTTP gateway that reads Spring Cloud Gateway's YAML.
#[derive(Debug, Parser)]
#[command(name = "tollgate", version = TEXT.as_str(), args_conflicts_with_subcommands = true, after_help = PROPERTIES)]
struct Cli {
    #[command(flatten)]
    serve: Selection,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the gateway (default command)
    Serve {
        /// Configuration file
        file: Option<PathBuf>,
        #[command(flatten)]
        selection: Selection,
    },
    /// Run the built-in demo, without a file or an upstream
    Demo,
    /// Report all errors in configuration files
    Check {
        /// Configuration files; each is checked separately, with the files of --config after it
        #[arg(value_name = "FILE")]
        checked: Vec<PathBuf>,
        #[command(flatten)]
        selection: Selection,
        /// Print only an overlay file with the missing endpoints, key resolvers and filters
        #[arg(long)]
        overlay: bool,
        /// Print the result of each configuration as a line of JSON, for editors and CI
        #[arg(long, conflicts_with = "overlay")]
        json: bool,
        /// Problems to show of each file, errors first; 0 shows all, 10,000 errors, warnings and notes at most
        #[arg(long, value_name = "N", default_value_t = MAX_SHOWN)]
        max_problems: usize,
        /// Connect to the servers that the configuration names, within 5 s, and warn of those that cannot be used
        #[arg(long)]
        connect: bool,
        /// Look up no names of upstreams; without it, names that have no address are warnings, within 2 s
        #[arg(long, conflicts_with = "connect")]
        offline: bool,
    },
    /// Dry-run a request: show the matching route and why earlier routes do not match, the filters, the keys of the limiters, and the upstream request
    Explain(explain::Arguments),
    /// Replay access logs through routes and limits: show what a configuration would have denied
    Simulate(simulate::Arguments),
    /// Suggest limits for the clients of access logs, by route and key, and name the clients that they would touch. With a log alone, the routes are those that it names
    Suggest(suggest::Arguments),
    /// Convert an application.yml of Spring Cloud Gateway to Tollgate's own form, with comments on each change
    Migrate {
        /// The application.yml or application.properties to convert
        file: Option<PathBuf>,
        #[command(flatten)]
        selection: Selection,
        /// Output file [default: standard output]
        #[arg(long, short, value_name = "FILE")]
        out: Option<PathBuf>,
    },
    /// Print the JSON Schema of the configuration, for editors
    Schema,
    /// Query the readiness of a running gateway; the exit code is 0 if it is ready
    Health(admin_client::Target),
    /// List the keys that the limiters of a running gateway deny most often
    Top(top::Arguments),
    /// Read or change the remaining tokens and the limits of a key in a running gateway
    #[command(subcommand)]
    Limits(limits::Command),
    /// Make API keys and their hashes, for the file of keys
    #[command(subcommand)]
    Keys(keys::Command),
    /// Drain an endpoint of a running gateway: it gets no new request for a limited time
    Drain(drain::Drain),
    /// Force the state of a circuit breaker of a running gateway for a limited time
    Breaker(drain::Breaker),
    /// Reload the configuration of a running gateway, and print its errors and warnings
    Reload(admin_client::Target),
    /// Show readiness, configuration, upstreams and circuit breakers of a running gateway
    Status(admin_client::Target),
    /// Write the manual pages and the completions of shells to a folder, for packages
    #[command(hide = true)]
    Generate {
        /// Existing folder
        folder: PathBuf,
    },
}

/// Runs the command of the process arguments.
///
/// Exit codes: 0 success, including a shutdown by a signal; 1 errors in the configuration or at the start; 2 an unreadable
/// file or invalid arguments.
#[must_use]
pub fn main() -> ExitCode {
    let held = HeldSignals::hold();
    let (arguments, properties) = match properties::split(std::env::args_os()) {
        Ok(split) => split,
        Err(name) => refuse(ErrorKind::InvalidValue, &format!("missing value of a property: write --{name}=VALUE")),
    };
    let cli = Cli::parse_from(arguments);
    let command = cli.command.unwrap_or(Command::Serve { file: None, selection: cli.serve });
    let names_files = command.names_files();
    if let (Some((name, _)), None) = (properties.first(), names_files) {
        refuse(ErrorKind::UnknownArgument, &format!("--{name} has no effect: this command reads no configuration"));
    }
    let on_command_line = CommandLine { profiles: None, properties };
    if on_command_line.has_location() && names_files == Some(true) {
        let both = "--spring.config.location replaces all files: leave out the others, or use --spring.config.additional-location";
        refuse(ErrorKind::ArgumentConflict, both);
    }
    let held = held.filter(|_| command.serves());
    match run(command, on_command_line, held) {
        Ok(code) | Err(code) => code,
    }
}

/// Runs `command`. An error is the exit code of a failure, which is printed.
fn run(command: Command, command_line: CommandLine, held: Option<HeldSignals>) -> Result<ExitCode, ExitCode> {
    Ok(match command {
        Command::Serve { file, selection } => {
            let command_line = selection.with_profiles(command_line);
            let paths = selection.files(file, &command_line)?;
            let source = Source::Files { paths, command_line };
            serve::start(|| tollgate_config::load(source.paths(), &source.command_line()), &source, held)?
        }
        Command::Demo => serve::demo(held)?,
        Command::Check { checked, selection, overlay, json, max_problems, connect, offline } => {
            let mode = match (overlay, json) {
                (true, _) => check::Mode::Overlay,
                (_, true) => check::Mode::Json,
                _ => check::Mode::Problems,
            };
            let command_line = selection.with_profiles(command_line);
            let files = if checked.is_empty() { vec![None] } else { checked.into_iter().map(Some).collect() };
            let configurations = files.into_iter().map(|file| selection.files(file, &command_line));
            let configurations = configurations.collect::<Result<Vec<_>, _>>()?;
            if configurations.iter().flatten().filter(|path| path.as_os_str() == "-").count() > 1 {
                return Err(report::usage("standard input, `-`, can be read once: name it for one configuration"));
            }
            let max_problems = if max_problems == 0 { usize::MAX } else { max_problems };
            let servers = match (connect, offline || overlay) {
                (true, _) => check::Servers::Connected,
                (false, true) => check::Servers::Offline,
                (false, false) => check::Servers::LookedUp,
            };
            check::run(&configurations, &command_line, mode, max_problems, servers)
        }
        Command::Explain(arguments) => explain::run(&arguments, command_line)?,
        Command::Simulate(arguments) => simulate::run(&arguments, command_line)?,
        Command::Suggest(arguments) => suggest::run(&arguments, command_line)?,
        Command::Migrate { file, selection, out } => {
            let command_line = selection.with_profiles(command_line);
            migrate::run(&selection.files(file, &command_line)?, &command_line, out)?
        }
        Command::Schema => report::write(tollgate_config::SCHEMA),
        Command::Health(target) => status::health(&target),
        Command::Top(arguments) => top::run(&arguments),
        Command::Limits(command) => limits::run(&command),
        Command::Keys(command) => keys::run(&command),
        Command::Drain(drain) => drain::run(&drain),
        Command::Breaker(breaker) => drain::force(&breaker),
        Command::Reload(target) => status::reload(&target),
        Command::Status(target) => status::status(&target),
        Command::Generate { folder } => generate(&folder)
            .map(|()| ExitCode::SUCCESS)
            .map_err(|error| report::usage(format_args!("cannot write to `{}`: {error}", folder.display())))?,
    })
}

/// Writes a manual page for each command, and completions for three shells.
fn generate(folder: &Path) -> io::Result<()> {
    for shell in [Shell::Bash, Shell::Fish, Shell::Zsh] {
        clap_complete::generate_to(shell, &mut Cli::command(), "tollgate", folder)?;
    }
    clap_mangen::generate_to(Cli::command(), folder)
}

/// Prints an error about the arguments, and exits.
fn refuse(kind: ErrorKind, message: &str) -> ! {
    Cli::command().error(kind, message).exit()
}

impl Command {
    /// Returns true for a command that runs the gateway.
    fn serves(&self) -> bool {
        matches!(self, Self::Serve { .. } | Self::Demo)
    }

    /// Returns true if the arguments name configuration files; `None` for a command that reads no configuration.
    fn names_files(&self) -> Option<bool> {
        Some(match self {
            Self::Serve { file, selection } | Self::Migrate { file, selection, .. } => {
                file.is_some() || selection.names_files()
            }
            Self::Check { checked, selection, .. } => !checked.is_empty() || selection.names_files(),
            Self::Explain(arguments) if !arguments.is_live() => arguments.names_files(),
            Self::Simulate(arguments) => arguments.names_files(),
            Self::Suggest(arguments) => arguments.names_files(),
            _ => return None,
        })
    }
}
