//! The author's own comments, by the key or list item below them, and comments that accept warnings.
//!
//! The YAML parser drops comments. So this module reads the lines: a comment belongs to the first node that begins on the
//! next line with content, or on its own line.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};

use crate::diagnostics::{A_SECRET, ACCEPTED, Diagnostic, Format, PROPOSAL, Report, Severity, SourceText, is_proposal};
use crate::load::parse;
use crate::yaml::{self, Span};

/// Comments by the line of the node below them.
#[derive(Debug)]
pub(super) struct Comments {
    root: Span,
    /// Positions of the lines of each file.
    lines: Vec<Vec<usize>>,
    /// By file and line. Each is taken once: several nodes may begin on one line.
    above: RefCell<HashMap<(usize, usize), Vec<String>>>,
}

impl Comments {
    /// Collects the comments of the YAML files of `text`, whose first document is at `root`.
    pub(super) fn of(text: &SourceText, root: Span) -> Self {
        let (mut lines, mut above) = (Vec::new(), HashMap::new());
        for (file, source) in text.files.iter().enumerate() {
            lines.push(yaml::lines(&source.text).map(|(start, _)| start).collect());
            if source.format == Format::Yaml {
                let keeps = if is_proposal(&source.text) { is_own_in_proposal } else { |_: &str, _: bool| true };
                collect(&source.text, file, &keeps, &mut above);
            }
        }
        Self { root, lines, above: RefCell::new(above) }
    }

    /// Removes and returns the comments above the node at `span`. A section that was made has the place of the document, and
    /// no comments.
    pub(super) fn take(&self, span: Span) -> Vec<String> {
        if span.contains(self.root) {
            return Vec::new();
        }
        let (file, start) = (span.file(), span.key().bytes().range().start);
        let line = self.lines.get(file).map_or(0, |lines| lines.partition_point(|line| *line <= start));
        self.above.borrow_mut().remove(&(file, line)).unwrap_or_default()
    }
}

/// Returns true for a comment of the author's in an overlay that `check` has proposed. Its own comments are its head, those
/// behind values, and the names of secrets.
fn is_own_in_proposal(comment: &str, is_trailing: bool) -> bool {
    !is_trailing && comment != PROPOSAL && !comment.starts_with("tollgate ") && !comment.contains(A_SECRET)
}

/// Collects the comments that `keeps` selects in one file, by the 1-based line of the node below them. It is called with the
/// text and whether the comment is behind a value.
fn collect(
    text: &str,
    file: usize,
    keeps: &dyn Fn(&str, bool) -> bool,
    above: &mut HashMap<(usize, usize), Vec<String>>,
) {
    let (mut waiting, mut block) = (Vec::new(), None);
    for (number, (_, line)) in yaml::lines(text).enumerate() {
        let content = line.trim_start();
        let indent = line.len() - content.len();
        if block.is_some_and(|above| content.is_empty() || indent > above) {
            continue;
        }
        block = None;
        if let Some(comment) = content.strip_prefix('#') {
            waiting.extend(Some(comment.trim().to_owned()).filter(|comment| keeps(comment, false)));
        } else if content.is_empty() || line.trim_end() == "---" {
            // A comment before an empty line belongs to no node.
            waiting.clear();
        } else {
            let trailing = content.split_once(" #").map(|(_, comment)| comment.trim().to_owned());
            let trailing = trailing.filter(|comment| keeps(comment, true));
            let comments: Vec<String> = waiting.drain(..).chain(trailing).collect();
            if !comments.is_empty() {
                above.insert((file, number + 1), comments);
            }
            block = content.trim_end().ends_with(['|', '>']).then_some(indent);
        }
    }
}

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
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::diagnostics::SourceFile;

    #[test]
    fn comments_belong_to_the_first_node_of_the_next_line() {
        let text =
            "# one\na: {b: 1, # two\n  # three\n  c: 2}\n\n# lost\n\n# four\n- x: |\n  # text\n".replace("- x", "d");
        for line_end in ["\n", "\r\n", "\r"] {
            let text = text.replace('\n', line_end);
            let root = yaml::parse(&text, 0).documents.remove(0);
            let comments = Comments::of(&SourceText::from(SourceFile::new("a.yaml", &text)), root.span);
            assert!(comments.take(root.span.again()).is_empty(), "a made section");
            let (a, d) = (root.get("a").unwrap(), root.get("d").unwrap());
            let nodes = [a, a.get("b").unwrap(), a.get("c").unwrap(), d];
            let taken = nodes.map(|node| comments.take(node.span).join(", "));
            assert_eq!(taken, ["one, two", "", "three", "four"], "{line_end:?}");
        }
    }

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
