//! `tollgate check FILE…`: says everything that is wrong with configurations, without running them.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use tollgate_config::LoadError;

/// Every file is good.
const OK: u8 = 0;
/// A file has errors.
const PROBLEMS: u8 = 1;
/// A file cannot be read.
const UNREADABLE: u8 = 2;

/// Checks `files` with `profiles` active: their problems go to standard error, a line for each good one to standard output.
///
/// The exit code is 0 when all are good, 1 when one has errors, 2 when one cannot be read.
#[must_use]
pub fn run(files: &[PathBuf], profiles: Option<&str>) -> ExitCode {
    ExitCode::from(check(
        files,
        profiles,
        crate::cli::wants_color(),
        &mut io::stdout().lock(),
        &mut io::stderr().lock(),
    ))
}

fn check(files: &[PathBuf], profiles: Option<&str>, color: bool, out: &mut dyn Write, err: &mut dyn Write) -> u8 {
    let mut worst = OK;
    for path in files {
        // A closed pipe does not change the verdict: failed writes are let go.
        let code = match tollgate_config::load_for(path, profiles) {
            Ok(loaded) => {
                let _ = write!(err, "{}", loaded.notes.render(color));
                let count = loaded.config.routes.len();
                let _ =
                    writeln!(out, "{}: ok, {count} {}", path.display(), if count == 1 { "route" } else { "routes" });
                OK
            }
            Err(LoadError::Invalid(problems)) => {
                let _ = write!(err, "{}", problems.render(color));
                PROBLEMS
            }
            Err(LoadError::Unreadable { path, source }) => {
                let _ = writeln!(err, "{}: error: cannot read it: {source}", path.display());
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

    fn checked(files: &[PathBuf]) -> (u8, String, String) {
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let code = check(files, None, false, &mut out, &mut err);
        (code, String::from_utf8(out).unwrap(), String::from_utf8(err).unwrap())
    }

    #[test]
    fn a_good_file_is_ok_a_bad_one_1_and_a_missing_one_2() {
        let dir = tempfile::tempdir().unwrap();
        let (good, bad, missing) =
            (dir.path().join("good.yaml"), dir.path().join("bad.yaml"), dir.path().join("none.yaml"));
        std::fs::write(&good, "routes: [{id: a, uri: 'echo:', predicates: [Path=/**]}]\n").unwrap();
        std::fs::write(&bad, "routes: [{id: a, uri: nowhere, predicates: [Path=/**]}]\n").unwrap();

        let (code, out, err) = checked(std::slice::from_ref(&good));
        assert_eq!((code, err.as_str()), (0, ""));
        assert!(out.ends_with("good.yaml: ok, 1 route\n"), "{out}");
        let (code, out, err) = checked(&[bad.clone(), good.clone()]);
        assert_eq!(code, 1);
        assert!(out.contains("good.yaml: ok") && err.contains("bad.yaml:1:23: error:"), "{out}{err}");
        assert_eq!(checked(&[missing, bad, good]).0, 2);
    }
}
