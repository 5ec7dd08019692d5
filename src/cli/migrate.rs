//! `tollgate migrate FILE`: an application.yml of Spring's in our own plain form.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::config::{self, LoadError};

/// Prints `file` in our own form, or writes it to `out`. The exit code is 0, 1 when the file has errors, 2 when it cannot
/// be read or `out` not be written.
pub(super) fn run(file: &Path, out: Option<PathBuf>) -> ExitCode {
    let migrated = match config::migrate_file(file) {
        Ok(migrated) => migrated,
        Err(error) => {
            eprint!("{}", error.render(super::wants_color()));
            return ExitCode::from(if matches!(error, LoadError::Invalid(_)) { 1 } else { 2 });
        }
    };
    let written = match &out {
        Some(out) => std::fs::write(out, &migrated.yaml),
        None => io::stdout().lock().write_all(migrated.yaml.as_bytes()),
    };
    match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("tollgate: cannot write it: {error}");
            ExitCode::from(2)
        }
    }
}
