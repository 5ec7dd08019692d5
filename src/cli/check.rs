//! `tollgate check FILE…`: reports all errors of configuration files, without running them.

use std::borrow::Cow;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use serde_json::{Value, json};

use crate::app::source;
use crate::cli::{connect, load, names, report};
use tollgate_config::{CommandLine, LoadError, Loaded, Report};

/// Every file is valid.
const OK: u8 = 0;
/// A file has errors.
const INVALID: u8 = 1;
/// A file cannot be read, or standard output cannot be written.
const UNREADABLE: u8 = 2;

/// Output of the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// All diagnostics, then an overlay file that adds all missing parts.
    Problems,
    /// Only the overlay file, on standard output.
    Overlay,
    /// The result of each configuration as a line of JSON, on standard output.
    Json,
}

/// Check of the servers that a valid configuration names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Servers {
    /// None.
    Offline,
    /// Names of upstreams are looked up.
    LookedUp,
    /// All servers are connected to.
    Connected,
}

/// Checks each of `configurations` with the settings of `command_line`. A configuration is a list of files; values of later
/// files win. Prints `max_problems` diagnostics of each to standard error, and a line for each valid configuration to standard output.
/// Names and servers that cannot be used are warnings, as `servers` says.
///
/// The exit code is 0 if all files are valid, 1 if a file has errors, 2 if a file cannot be read or standard output cannot be written.
/// [`Mode::Overlay`] ignores errors that the overlay file corrects.
#[must_use]
pub fn run(
    configurations: &[Vec<PathBuf>],
    command_line: &CommandLine,
    mode: Mode,
    max_problems: usize,
    servers: Servers,
) -> ExitCode {
    let mut output = Output {
        mode,
        max_problems,
        servers,
        color: load::wants_color(),
        command_line,
        out: &mut io::stdout().lock(),
        err: &mut io::stderr().lock(),
        proposal: None,
        unwritten: None,
    };
    let code = configurations.iter().map(|files| output.check(files)).max().unwrap_or(OK);
    ExitCode::from(output.finish().max(code))
}

struct Output<'o> {
    mode: Mode,
    max_problems: usize,
    servers: Servers,
    color: bool,
    command_line: &'o CommandLine,
    out: &'o mut dyn Write,
    err: &'o mut dyn Write,
    /// In [`Mode::Overlay`], the first configuration that lacks parts, with the missing parts of all.
    proposal: Option<(Vec<PathBuf>, Report)>,
    /// Reason why a part of the result was not written.
    unwritten: Option<io::Error>,
}

impl Output<'_> {
    /// Prints to standard output. A reader that has closed its pipe needs no more; any other failure counts, and those of standard
    /// error do not.
    fn print(&mut self, text: std::fmt::Arguments<'_>) {
        if let Err(error) = self.out.write_fmt(text).and_then(|()| self.out.flush())
            && error.kind() != io::ErrorKind::BrokenPipe
        {
            self.unwritten = Some(error);
        }
    }

    fn check(&mut self, files: &[PathBuf]) -> u8 {
        let loaded = match self.servers {
            Servers::Offline => tollgate_config::load(files, self.command_line),
            Servers::LookedUp => tollgate_config::load_and_check(files, self.command_line, &mut names::check),
            Servers::Connected => tollgate_config::load_and_check(files, self.command_line, &mut connect::check),
        };
        match loaded {
            result if self.mode == Mode::Json => self.json(files, result),
            Ok(loaded) if self.mode == Mode::Overlay => self.overlay(files, &loaded.notes, OK),
            Ok(loaded) => {
                self.problems(files, &loaded.notes);
                let count = loaded.config.routes.len();
                let routes = if count == 1 { "route" } else { "routes" };
                self.print(format_args!("{}: ok, {count} {routes}\n", source::names(files, self.command_line)));
                OK
            }
            Err(LoadError::Invalid(report)) if self.mode == Mode::Overlay => {
                self.overlay(files, &report, if report.has_other_errors() { INVALID } else { OK })
            }
            Err(LoadError::Invalid(report)) => {
                self.problems(files, &report);
                INVALID
            }
            Err(ref error @ LoadError::Unreadable { ref path, ref source }) => {
                let help = error.help();
                let _ = write!(self.err, "{}: error: cannot read the file: {source}\n{help}", path.display());
                UNREADABLE
            }
        }
    }

    /// Prints the result as a line of JSON.
    fn json(&mut self, files: &[PathBuf], result: Result<Loaded, LoadError>) -> u8 {
        let (code, routes, (diagnostics, more)) = match result {
            Ok(Loaded { config, notes }) => (OK, Some(config.routes.len()), listed(&notes, self.max_problems)),
            Err(LoadError::Invalid(report)) => (INVALID, None, listed(&report, self.max_problems)),
            Err(ref error @ LoadError::Unreadable { ref path, ref source }) => {
                let message = format!("cannot read the file: {source}");
                let place = (path.to_string_lossy(), 0, 0);
                (UNREADABLE, None, (vec![diagnostic("error", place, &message, error.remedy())], 0))
            }
        };
        let files: Vec<_> = files.iter().map(|file| file.to_string_lossy()).collect();
        let mut result = json!({"files": files, "valid": code == OK, "routes": routes, "diagnostics": diagnostics});
        if more > 0 {
            result["more"] = more.into();
        }
        self.print(format_args!("{result}\n"));
        code
    }

    /// Prints the diagnostics and the overlay file.
    fn problems(&mut self, files: &[PathBuf], report: &Report) {
        let _ = write!(self.err, "{}", report.render_at_most(self.max_problems, self.color));
        if let Some((overlay, _)) = self.proposed(files, report) {
            let _ = write!(self.err, "\n{overlay}\n");
        }
    }

    /// Adds to the overlay file, and prints the diagnostics only if it does not correct all errors.
    fn overlay(&mut self, files: &[PathBuf], report: &Report, code: u8) -> u8 {
        match (self.proposed(files, report), &mut self.proposal) {
            (Some(_), Some((_, all))) => all.add_missing(report),
            (Some(_), none) => *none = Some((files.to_vec(), report.clone())),
            (None, _) => {
                let _ =
                    writeln!(self.err, "{}: no missing parts for an overlay", source::names(files, self.command_line));
            }
        }
        if code != OK {
            let _ = write!(self.err, "{}", report.render_at_most(self.max_problems, self.color));
        }
        code
    }

    /// Prints the overlay file of all configurations, which has each section once. One that lacks parts does not correct all errors.
    fn finish(&mut self) -> u8 {
        let overlay = self.proposal.take().and_then(|(files, report)| self.proposed(&files, &report));
        let (overlay, others) = overlay.unwrap_or_default();
        self.print(format_args!("{overlay}"));
        if let Some(error) = &self.unwritten {
            let _ = writeln!(self.err, "tollgate: {}", report::unwritten(error));
            return UNREADABLE;
        }
        if others == 0 {
            return OK;
        }
        let _ = writeln!(self.err, "the overlay lacks {others} parts: `--max-problems 0` prints all of them");
        INVALID
    }

    /// Returns the overlay file, and the number of the parts that it lacks.
    fn proposed(&self, files: &[PathBuf], report: &Report) -> Option<(String, usize)> {
        let names: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        report.overlay_at_most(&names, self.command_line.profiles.as_deref(), self.max_problems)
    }
}

/// Returns `max` diagnostics, and the number of the others.
fn listed(report: &Report, max: usize) -> (Vec<Value>, usize) {
    let first = report.first(max);
    let more = report.count() - first.len();
    let diagnostics = first.into_iter().map(|problem| {
        let place = (Cow::Borrowed(report.file_name(problem.file)), problem.line, problem.column);
        diagnostic(problem.severity.as_str(), place, &problem.text(), problem.help.as_deref())
    });
    (diagnostics.collect(), more)
}

fn diagnostic(
    severity: &str,
    (file, line, column): (Cow<'_, str>, usize, usize),
    message: &str,
    help: Option<&str>,
) -> Value {
    json!({"severity": severity, "file": file, "line": line, "column": column, "message": message, "help": help})
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    fn checked(files: &[&PathBuf]) -> (u8, String, String) {
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let command_line = &CommandLine::default();
        let mut output = Output {
            mode: Mode::Problems,
            max_problems: 3,
            servers: Servers::Offline,
            color: false,
            command_line,
            out: &mut out,
            err: &mut err,
            proposal: None,
            unwritten: None,
        };
        let code = files.iter().map(|file| output.check(std::slice::from_ref(*file))).max().unwrap();
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

    #[test]
    fn errors_come_first_if_not_all_problems_are_shown() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a.yaml");
        let route = |at: usize| {
            format!("- {{id: r{at}, uri: 'http://a', predicates: [Path=/{at}], metadata: {{connect-timeout: {at}}}}}\n")
        };
        let routes: String = (1..=5).map(route).collect();
        std::fs::write(&file, format!("routes:\n{routes}foo1: 1\nfoo2: 1\n")).unwrap();
        let (code, _, err) = checked(&[&file]);
        assert_eq!(code, 1);
        assert_eq!(err.matches(": error: ").count(), 2, "{err}");
        assert_eq!(err.matches(": warning: ").count(), 1, "{err}");
        assert!(err.ends_with("\nand 4 more: 4 warnings; `tollgate check --max-problems 0` shows more\n"), "{err}");
    }

    #[test]
    fn an_overlay_that_lacks_parts_is_no_success() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("application.yml");
        let route = |at| format!("- {{id: r{at}, uri: 'lb://s{at}', predicates: [Path=/{at}]}}\n");
        std::fs::write(&file, format!("spring.cloud.gateway.routes:\n{}", (0..5).map(route).collect::<String>()))
            .unwrap();
        for (max_problems, code) in [(3, INVALID), (5, OK)] {
            let (mut out, mut err) = (Vec::new(), Vec::new());
            let command_line = &CommandLine::default();
            let (out_now, err_now) = (&mut out, &mut err);
            let mut output = Output {
                mode: Mode::Overlay,
                max_problems,
                servers: Servers::Offline,
                color: false,
                command_line,
                out: out_now,
                err: err_now,
                proposal: None,
                unwritten: None,
            };
            assert_eq!((output.check(std::slice::from_ref(&file)), output.finish()), (OK, code));
            let (out, err) = (String::from_utf8(out).unwrap(), String::from_utf8(err).unwrap());
            assert_eq!(out.contains("# 2 more are missing"), code == INVALID, "{out}");
            assert_eq!(err.contains("the overlay lacks 2 parts"), code == INVALID, "{err}");
        }
    }
}
