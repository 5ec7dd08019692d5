//! `tollgate migrate FILE`: converts Spring's application.yml to Tollgate's own form.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::cli::load;
use tollgate_config::{CommandLine, Severity};

/// Prints `files`, of which later ones win, as one file in Tollgate's own form, or writes it to `out`.
///
/// The exit code is 0; 1 if the file has errors; 2 if it cannot be read or `out` cannot be written. It is also 1 if the
/// new file has errors, as with placeholders that only the environment of the old one had; the diagnostics name them.
pub(super) fn run(files: &[PathBuf], command_line: &CommandLine, out: Option<PathBuf>) -> ExitCode {
    let migrated = match tollgate_config::migrate_files(files, command_line) {
        Ok(migrated) => migrated,
        Err(error) => return load::report(&error),
    };
    let written = match &out {
        Some(out) => std::fs::write(out, &migrated.yaml),
        None => io::stdout().lock().write_all(migrated.yaml.as_bytes()),
    };
    match written {
        Ok(()) => ExitCode::from(u8::from(needs_decision(&migrated.yaml, out.as_deref()))),
        Err(error) => {
            eprintln!("tollgate: cannot write the output: {error}");
            ExitCode::from(2)
        }
    }
}

/// Prints warnings and errors of the new file. Returns true if it has errors.
fn needs_decision(yaml: &str, out: Option<&Path>) -> bool {
    let name = out.map_or_else(|| "the new file".to_owned(), |out| out.display().to_string());
    let (notes, is_refused) = match tollgate_config::parse(&name, yaml, &|name| std::env::var(name).ok()) {
        Ok(loaded) => (loaded.notes, false),
        Err(diagnostics) => (diagnostics, true),
    };
    if notes.list().iter().any(|note| note.severity <= Severity::Warning) {
        eprint!("{}", notes.render(load::wants_color()));
    }
    is_refused
}
