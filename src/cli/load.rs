//! Configurations on the command line: selection, names and errors, properties among the arguments as in Spring Boot
//! (`--server.port=9000`), and `tollgate migrate FILE`, which converts Spring's application.yml to Tollgate's own form.
//!
//! An argument is a property if its name has a dot. No option has one, so a mistyped option remains an error.

use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;

use crate::app::source::LOCATION;
use crate::cli::report::usage;
use tollgate_config::{CommandLine, LoadError, Loaded, Severity};

/// Arguments that select a configuration. They mean the same in every command.
#[derive(Debug, Args)]
pub(super) struct Selection {
    /// Configuration file after FILE (repeatable); values of later files win [default without FILE: TOLLGATE_CONFIG (comma-separated), otherwise SPRING_CONFIG_LOCATION, otherwise config/tollgate.yaml]
    #[arg(long = "config", short = 'c', value_name = "FILE")]
    config: Vec<PathBuf>,
    /// Active profiles, comma-separated, as in Spring [default: SPRING_PROFILES_ACTIVE]
    #[arg(long = "profile", value_name = "NAMES")]
    profiles: Option<String>,
}

/// Configuration used if nothing names one.
const DEFAULT: &str = "config/tollgate.yaml";
/// Environment variable that names the files if the command line names none.
const VARIABLE: &str = "TOLLGATE_CONFIG";

impl Selection {
    /// Returns true if `--config` is given.
    pub(super) fn names_files(&self) -> bool {
        !self.config.is_empty()
    }

    /// Adds the profiles to `command_line`.
    pub(super) fn with_profiles(&self, command_line: CommandLine) -> CommandLine {
        CommandLine { profiles: self.profiles.clone(), ..command_line }
    }

    /// Returns the files of the configuration: `file`, then those of `--config`. Without both, the files of [`VARIABLE`] or
    /// [`DEFAULT`]; none if a location as in Spring Boot names them.
    ///
    /// # Errors
    /// Nothing names a configuration, which is printed. Returns the exit code.
    pub(super) fn files(&self, file: Option<PathBuf>, command_line: &CommandLine) -> Result<Vec<PathBuf>, ExitCode> {
        let in_arguments: Vec<PathBuf> = file.into_iter().chain(self.config.iter().cloned()).collect();
        if !in_arguments.is_empty() || command_line.has_location() {
            return Ok(in_arguments);
        }
        let in_environment = from_environment();
        let has_location = || std::env::var_os(LOCATION).is_some_and(|list| !list.to_string_lossy().trim().is_empty());
        if !in_environment.is_empty() || has_location() {
            return Ok(in_environment);
        }
        Path::new(DEFAULT).exists().then(|| vec![DEFAULT.into()]).ok_or_else(|| {
            usage(format_args!(
                "no configuration: {DEFAULT} does not exist.\n\
                 Set --config FILE, {VARIABLE} or {LOCATION}, or run `tollgate demo`, which needs no file."
            ))
        })
    }
}

/// Returns the files that [`VARIABLE`] names, separated by commas. A value that is an existing path is one file.
fn from_environment() -> Vec<PathBuf> {
    let Some(value) = std::env::var_os(VARIABLE).filter(|value| !value.is_empty()) else { return Vec::new() };
    match value.to_str() {
        Some(list) if !Path::new(list).exists() => {
            list.split(',').map(str::trim).filter(|file| !file.is_empty()).map(PathBuf::from).collect()
        }
        _ => vec![value.into()],
    }
}

/// Loads the configuration in `files`.
///
/// # Errors
/// It has errors, which are printed. Returns the exit code.
pub(super) fn load(files: &[PathBuf], command_line: &CommandLine) -> Result<Loaded, ExitCode> {
    tollgate_config::load(files, command_line).map_err(|error| report(&error))
}

/// Prints the errors of a configuration to standard error. Returns 1 if the file has errors, 2 if it cannot be read.
pub(super) fn report(error: &LoadError) -> ExitCode {
    eprint!("{}", error.render(wants_color()));
    ExitCode::from(if matches!(error, LoadError::Invalid(_)) { 1 } else { 2 })
}

/// Returns true if diagnostics are coloured: on a terminal, unless `NO_COLOR` is set (no-color.org).
pub(super) fn wants_color() -> bool {
    std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none()
}

/// Converts `files` to one file in Tollgate's own form. Values of later files win. Writes the result to `out`, or to
/// standard output.
///
/// The exit code is 0; 1 if a file or the result has errors; 2 if a file cannot be read or `out` cannot be written. The
/// result has errors if, for example, an environment variable that it refers to is not set.
pub(super) fn migrate(
    files: &[PathBuf],
    command_line: &CommandLine,
    out: Option<PathBuf>,
) -> Result<ExitCode, ExitCode> {
    let name = out.as_ref().map_or_else(|| "the new file".to_owned(), |out| out.display().to_string());
    let migrated = tollgate_config::migrate_files(files, command_line, &name).map_err(|error| report(&error))?;
    let written = match &out {
        Some(out) => std::fs::write(out, &migrated.yaml),
        None => io::stdout().lock().write_all(migrated.yaml.as_bytes()),
    };
    written.map_err(|error| usage(format_args!("cannot write the output: {error}")))?;
    let report = migrated.new_notes;
    if report.list().iter().any(|diagnostic| diagnostic.severity <= Severity::Warning) {
        eprint!("{}", report.render(wants_color()));
    }
    Ok(ExitCode::from(u8::from(report.has_errors())))
}

/// The other arguments, and the properties as pairs of name and value.
type Split = (Vec<OsString>, Vec<(String, String)>);

/// Separates the properties from the other `arguments`. Values of repeated names are joined with commas, as in Spring
/// Boot.
///
/// # Errors
/// The name of a property without `=`.
pub(super) fn split_properties(arguments: impl IntoIterator<Item = OsString>) -> Result<Split, String> {
    let (mut others, mut properties) = (Vec::new(), Vec::<(String, String)>::new());
    let mut arguments = arguments.into_iter();
    while let Some(argument) = arguments.next() {
        if argument == "--" {
            others.push(argument);
            others.extend(arguments);
            break;
        }
        let Some(text) = argument.to_str().and_then(|text| text.strip_prefix("--")) else {
            others.push(argument);
            continue;
        };
        let (name, value) = text.split_once('=').map_or((text, None), |(name, value)| (name, Some(value)));
        if !is_property(name) {
            others.push(argument);
            continue;
        }
        let Some(value) = value else { return Err(name.to_owned()) };
        match properties.iter_mut().find(|(known, _)| known == name) {
            Some((_, values)) => {
                values.push(',');
                values.push_str(value);
            }
            None => properties.push((name.to_owned(), value.to_owned())),
        }
    }
    Ok((others, properties))
}

/// Returns true for a dotted name, such as `spring.profiles.active` or `routes[0].uri`.
fn is_property(name: &str) -> bool {
    let has_valid_start = name.starts_with(|first: char| first.is_ascii_alphanumeric());
    has_valid_start && name.contains('.') && !name.ends_with('.') && !name.contains(['/', ' '])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(arguments: &[&str]) -> Result<Split, String> {
        split_properties(arguments.iter().map(OsString::from))
    }

    #[test]
    fn dotted_names_are_properties_and_all_others_stay() {
        let (others, properties) = of(&[
            "tollgate",
            "--server.port=1",
            "check",
            "--config=./a.b=c",
            "a.b=c",
            "--routes[0].uri=http://a=b",
            "--server.port=2",
            "--cnfig=x",
            "-c",
            "--",
            "--a.b=c",
        ])
        .unwrap();
        assert_eq!(others, ["tollgate", "check", "--config=./a.b=c", "a.b=c", "--cnfig=x", "-c", "--", "--a.b=c"]);
        let of = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(properties, [of("server.port", "1,2"), of("routes[0].uri", "http://a=b")]);
    }

    #[test]
    fn a_property_needs_a_value() {
        assert_eq!(of(&["tollgate", "--spring.config.location", "x"]).unwrap_err(), "spring.config.location");
        assert_eq!(of(&["tollgate", "--a.b="]).unwrap().1, [("a.b".to_owned(), String::new())]);
    }
}
