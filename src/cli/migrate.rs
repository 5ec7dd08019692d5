//! `tollgate migrate FILE`: an application.yml of Spring's in our own plain form.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use tollgate_config::{LoadError, Severity};

/// Prints `file` in our own form, or writes it to `out`. The exit code is 0, 1 when the file has errors, 2 when it cannot
/// be read or `out` not be written. It is also 1 when our own form refuses what Spring lets pass, and somebody has to decide
/// what is meant; that is told, too.
pub(super) fn run(file: &Path, out: Option<PathBuf>) -> ExitCode {
    let migrated = match tollgate_config::migrate_file(file) {
        Ok(migrated) => migrated,
        Err(error) => {
            eprint!("{}", error.render(crate::cli::wants_color()));
            return ExitCode::from(if matches!(error, LoadError::Invalid(_)) { 1 } else { 2 });
        }
    };
    let written = match &out {
        Some(out) => std::fs::write(out, &migrated.yaml),
        None => io::stdout().lock().write_all(migrated.yaml.as_bytes()),
    };
    match written {
        Ok(()) => ExitCode::from(u8::from(left_to_decide(&migrated.yaml, out.as_deref()))),
        Err(error) => {
            eprintln!("tollgate: cannot write it: {error}");
            ExitCode::from(2)
        }
    }
}

/// Says what is wrong with the new file; whether it cannot be used so.
fn left_to_decide(yaml: &str, out: Option<&Path>) -> bool {
    let name = out.map_or_else(|| "the new file".to_owned(), |out| out.display().to_string());
    let (notes, is_refused) = match tollgate_config::parse(&name, yaml, &|name| std::env::var(name).ok()) {
        Ok(loaded) => (loaded.notes, false),
        Err(problems) => (problems, true),
    };
    if notes.list().iter().any(|note| note.severity <= Severity::Warning) {
        eprint!("{}", notes.render(crate::cli::wants_color()));
    }
    is_refused
}
