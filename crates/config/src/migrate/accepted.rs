//! Comments that accept the warnings that the new file inherits from its source, and the settings of the source that our own
//! form refuses because Spring ignores them.

use std::collections::{BTreeSet, HashMap};

use crate::diagnostics::{ACCEPTED, Diagnostic, Report, Severity};
use crate::load::parse;

/// Maximum number of passes that add comments: once a warning is accepted, another one may appear.
const MAX_ROUNDS: usize = 4;

/// Returns `yaml` with a comment above each line that has a warning or such a setting, and its diagnostics, which name it
/// `name`.
pub(super) fn accept(mut yaml: String, name: &str, env: &dyn Fn(&str) -> Option<String>) -> (String, Report) {
    let check = |yaml: &str| parse(name, yaml, env).map_or_else(|report| report, |loaded| loaded.notes);
    let mut report = check(&yaml);
    for _ in 0..MAX_ROUNDS {
        let may_be_accepted = |note: &&Diagnostic| {
            note.severity == Severity::Warning || note.is_mistake && note.severity == Severity::Error
        };
        let warnings: Vec<&Diagnostic> = report.list().iter().filter(may_be_accepted).collect();
        if warnings.is_empty() {
            break;
        }
        yaml = with_comments(&yaml, &warnings);
        report = check(&yaml);
    }
    (yaml, report)
}

fn with_comments(yaml: &str, warnings: &[&Diagnostic]) -> String {
    let mut out = String::with_capacity(yaml.len() + warnings.len() * 100);
    let mut by_line: HashMap<usize, Vec<&str>> = HashMap::new();
    // A message is one line unless a value in it is not; such a warning stays.
    for warning in warnings.iter().filter(|warning| !warning.message.contains(['\n', '\r'])) {
        let lines: BTreeSet<usize> = warning.also.iter().copied().chain([warning.line]).collect();
        lines.into_iter().for_each(|line| by_line.entry(line).or_default().push(&warning.message));
    }
    let accept = |indent: &str, number: usize, out: &mut String| {
        for message in by_line.get(&number).into_iter().flatten() {
            out.push_str(&format!("{indent}# {ACCEPTED} {message}\n"));
        }
    };
    accept("", 0, &mut out);
    for (index, line) in yaml.lines().enumerate() {
        let indent = &line[..line.len() - line.trim_start().len()];
        accept(indent, index + 1, &mut out);
        out.push_str(line);
        out.push('\n');
    }
    // A file without a section has its warnings behind its end.
    (yaml.lines().count() + 1..).zip(0..2).for_each(|(number, _)| accept("", number, &mut out));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_accepted_warning_is_a_note_and_no_other_one_is() {
        let yaml = "routes:\n  - {id: a, uri: 'http://a/path', predicates: [Path=/a]}\n  - {id: b, uri: 'http://b/path', predicates: [Path=/b]}\n";
        let warnings = |yaml: &str| match parse("", yaml, &|_| None) {
            Ok(loaded) => {
                let warnings = loaded.notes.list().iter().filter(|note| note.severity == Severity::Warning);
                warnings.map(|warning| 1 + warning.also.len()).sum()
            }
            Err(report) => usize::MAX - report.list().len(),
        };
        assert_eq!(warnings(yaml), 2);
        let (accepted, report) = accept(yaml.to_owned(), "new.yaml", &|_| None);
        assert!(!report.has_errors() && report.file_name(0) == "new.yaml", "{report}");
        assert_eq!(warnings(&accepted), 0, "{accepted}");
        assert_eq!(accepted.matches("  # accepted: path and query of `uri` are ignored, as in Spring\n").count(), 2);
        assert_eq!(warnings(&accepted.replacen("accepted: path", "accepted: paths", 1)), 1);
        assert_eq!(warnings(&accepted.replacen("Spring\n", "Spring\n\n", 1)), 1, "the comment is right above");
    }
}
