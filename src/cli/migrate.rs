//! `tollgate migrate FILE`: an application.yml of Spring's in our own plain form.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::config;

/// Prints `file` in our own form, or writes it to `out`. The exit code is 0, 1 when the file has errors, 2 when it cannot
/// be read or `out` not be written.
pub(super) fn run(file: &Path, out: Option<PathBuf>) -> ExitCode {
    let text = match std::fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) => {
            eprintln!("tollgate: cannot read {}: {error}", file.display());
            return ExitCode::from(2);
        }
    };
    let environment = |name: &str| std::env::var(name).ok();
    let migrated = match config::migrate(&file.display().to_string(), &text, &environment) {
        Ok(migrated) => migrated,
        Err(problems) => {
            eprint!("{}", problems.render(super::wants_color()));
            return ExitCode::from(1);
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
