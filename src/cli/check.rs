//! `tollgate check FILE…`: reports all errors of configuration files, without running them.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use crate::cli::load;
use tollgate_config::LoadError;

/// Every file is valid.
const OK: u8 = 0;
/// A file has errors.
const INVALID: u8 = 1;
/// A file cannot be read.
const UNREADABLE: u8 = 2;

/// Checks `configurations`, each one file or several of which later ones win, with the active `profiles`. Prints diagnostics to standard error, and a line for each valid file to
/// standard output.
///
/// The exit code is 0 if all files are valid, 1 if a file has errors, 2 if a file cannot be read.
#[must_use]
pub fn run(configurations: &[Vec<PathBuf>], profiles: Option<&str>) -> ExitCode {
    ExitCode::from(check(
        configurations,
        profiles,
        load::wants_color(),
        &mut io::stdout().lock(),
        &mut io::stderr().lock(),
    ))
}

fn check(
    configurations: &[Vec<PathBuf>],
    profiles: Option<&str>,
    color: bool,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> u8 {
    let mut worst = OK;
    for files in configurations {
        // Failed writes are ignored: a closed pipe does not change the result.
        let code = match tollgate_config::load(files, profiles) {
            Ok(loaded) => {
                let _ = write!(err, "{}", loaded.notes.render(color));
                let count = loaded.config.routes.len();
                let routes = if count == 1 { "route" } else { "routes" };
                let _ = writeln!(out, "{}: ok, {count} {routes}", load::names(files));
                OK
            }
            Err(LoadError::Invalid(diagnostics)) => {
                let _ = write!(err, "{}", diagnostics.render(color));
                INVALID
            }
            Err(LoadError::Unreadable { path, source }) => {
                let _ = writeln!(err, "{}: error: cannot read the file: {source}", path.display());
                UNREADABLE
            }
        };
        worst = worst.max(code);
    }
    worst
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    fn checked(files: &[&PathBuf]) -> (u8, String, String) {
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let files: Vec<Vec<PathBuf>> = files.iter().map(|file| vec![(*file).clone()]).collect();
        let code = check(&files, None, false, &mut out, &mut err);
        (code, String::from_utf8(out).unwrap(), String::from_utf8(err).unwrap())
    }

    #[test]
    fn exit_codes_are_0_for_valid_1_for_invalid_and_2_for_missing_files() {
        let dir = tempfile::tempdir().unwrap();
        let (good, bad, missing) =
            (dir.path().join("good.yaml"), dir.path().join("bad.yaml"), dir.path().join("none.yaml"));
        std::fs::write(&good, "routes: [{id: a, uri: 'echo:', predicates: [Path=/**]}]\n").unwrap();
        std::fs::write(&bad, "routes: [{id: a, uri: nowhere, predicates: [Path=/**]}]\n").unwrap();

        let (code, out, err) = checked(&[&good]);
        assert_eq!((code, err.as_str()), (0, ""));
        assert!(out.ends_with("good.yaml: ok, 1 route\n"), "{out}");
        let (code, out, err) = checked(&[&bad, &good]);
        assert_eq!(code, 1);
        assert!(out.contains("good.yaml: ok") && err.contains("bad.yaml:1:23: error:"), "{out}{err}");
        assert_eq!(checked(&[&missing, &bad, &good]).0, 2);
    }
}
