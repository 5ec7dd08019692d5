//! The command line: one file a command.

pub mod check;
mod explain;
mod health;
mod schema;
mod serve;

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

/// A rate-limiting HTTP gateway that reads Spring Cloud Gateway's YAML.
#[derive(Debug, Parser)]
#[command(name = "tollgate", version, args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(flatten)]
    serve: Serve,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Args)]
struct Serve {
    /// The configuration; config/tollgate.yaml where none is named
    #[arg(long, short, value_name = "FILE", env = "TOLLGATE_CONFIG")]
    config: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the gateway (what happens without a command)
    Serve(Serve),
    /// Run the built-in demo: no file, no upstream needed
    Demo,
    /// Report every problem in configuration files
    Check {
        /// The files
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
    },
    /// Say what becomes of a request: which route takes it and why no earlier one, its filters, what limiters count it under, and what the upstream gets
    Explain(explain::Arguments),
    /// Print the JSON Schema of the YAML, for editors
    Schema,
    /// Ask a running gateway whether it is ready; exit code 0 if it is
    Health {
        /// Its admin port's address; 127.0.0.1 and MANAGEMENT_SERVER_PORT, or 9090, where none is named
        #[arg(value_name = "HOST:PORT")]
        address: Option<String>,
    },
}

/// Runs the command that the process was started with.
///
/// Exit codes: 0 done (a drained gateway included), 1 a problem in the configuration or on starting, 2 a file that
/// cannot be read or arguments that make no sense.
#[must_use]
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    match cli.command.unwrap_or(Command::Serve(cli.serve)) {
        Command::Serve(Serve { config }) => serve::file(config),
        Command::Demo => serve::demo(),
        Command::Check { files } => check::run(&files),
        Command::Explain(arguments) => explain::run(&arguments),
        Command::Schema => schema::run(),
        Command::Health { address } => health::run(address),
    }
}

/// Whether problems are shown in colours: to a terminal, unless `NO_COLOR` is set (no-color.org).
fn wants_color() -> bool {
    std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none()
}
