//! `tollgate migrate FILE`: converts Spring's application.yml to Tollgate's own form.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use crate::cli::load;
use crate::cli::report::usage;
use tollgate_config::{CommandLine, Severity};

/// Converts `files` to one file in Tollgate's own form. Values of later files win. Writes the result to `out`, or to
/// standard output.
///
/// The exit code is 0; 1 if a file or the result has errors; 2 if a file cannot be read or `out` cannot be written. The
/// result has errors if, for example, an environment variable that it refers to is not set.
pub(super) fn run(files: &[PathBuf], command_line: &CommandLine, out: Option<PathBuf>) -> Result<ExitCode, ExitCode> {
    let name = out.as_ref().map_or_else(|| "the new file".to_owned(), |out| out.display().to_string());
    let migrated = tollgate_config::migrate_files(files, command_line, &name).map_err(|error| load::report(&error))?;
    let written = match &out {
        Some(out) => std::fs::write(out, &migrated.yaml),
        None => io::stdout().lock().write_all(migrated.yaml.as_bytes()),
    };
    written.map_err(|error| usage(format_args!("cannot write the output: {error}")))?;
    let report = migrated.new_notes;
    if report.list().iter().any(|diagnostic| diagnostic.severity <= Severity::Warning) {
        eprint!("{}", report.render(load::wants_color()));
    }
    Ok(ExitCode::from(u8::from(report.has_errors())))
}
