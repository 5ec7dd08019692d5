//! Errors of a text at their positions: syntax, tags, and texts that readers of YAML 1.1, such as Spring's, would read otherwise.

use std::ops::Range;

use granit_parser::{ErrorKind, ScanError, Tag};

use super::{Builder, Content};
use crate::yaml::parse::Problem;
use crate::yaml::span::{Bytes, Span, line_column};
use crate::yaml::syntax::{self, Described};

impl Builder<'_> {
    pub(super) fn no_plain_key(&self, is_list: bool, at: Range<usize>) -> Problem {
        let kind = if is_list { "sequence" } else { "map" };
        self.error(at, &format!("invalid type: {kind}, expected a plain key"))
    }

    pub(super) fn error(&self, at: Range<usize>, message: &str) -> Problem {
        let at = Span::new(self.file, Bytes::new(at));
        Problem { at, message: format!("not valid YAML: {message}"), help: None, first: None }
    }

    pub(super) fn syntax_error(&self, error: &ScanError) -> Problem {
        let mut at = self.marked.original(error.marker().byte_offset().unwrap_or_default());
        if *error.kind() == ErrorKind::TabInBlockIndentation {
            // The parser is behind the tab.
            at = self.text.get(..at).map_or(at, |before| before.trim_end_matches('\t').len());
        } else if *error.kind() == ErrorKind::TabInPlainScalar {
            // The parser is at the begin of the text.
            at += self.text.get(at..).and_then(|text| text.find('\t')).unwrap_or(0);
        }
        if let Some(problem) = self.cut_off_in_brackets(at).or_else(|| self.text_behind_quote(at)) {
            return problem;
        }
        let Described { message, help, is_about_collection } = syntax::describe(error.kind());
        let begin = self.open.last().filter(|_| is_about_collection).map_or(0, |open| open.span.bytes().range().start);
        let help = help.map(|help| match line_column(self.text, begin) {
            _ if begin == 0 => help.to_owned(),
            (line, column) => format!("{help}; the list, map or text in question begins at {line}:{column}"),
        });
        Problem { help, ..self.error(at..at, &message) }
    }

    /// Describes a text in quotes that ends right before the error at `at`. The text of a quote that is never closed ends at the
    /// next one, often lines later.
    fn text_behind_quote(&self, at: usize) -> Option<Problem> {
        let before = self.text.get(..at)?;
        let quote =
            before.trim_end_matches([' ', '\t']).chars().next_back().filter(|last| ['"', '\''].contains(last))?;
        let end = before.trim_end_matches([' ', '\t']).len() - 1;
        let start = before[..end].rfind(quote)?;
        if end + 1 < at && !before[start..end].contains('\n') {
            return None;
        }
        let (line, column) = line_column(self.text, end);
        let help = format!(
            "the text in quotes begins here and ends at {line}:{column}: end it where it should, with the same quote; within \
             `'…'`, a quote is written twice, and within `\"…\"` as `\\\"`"
        );
        Some(Problem { help: Some(help), ..self.error(start..start, "text follows a closing quote") })
    }

    /// Returns the full name of the tag of a value. A tag of the author's is an error.
    pub(super) fn tag(&mut self, tag: Option<&Tag>, at: usize) -> Result<Option<String>, Problem> {
        if tag.is_none() || self.map_without_key().is_some() {
            return Ok(None);
        }
        let name = tag.map(|tag| format!("{}{}", tag.handle(), tag.suffix()));
        if name.as_deref().is_some_and(|name| name.starts_with('!')) {
            let help = "quote a text that begins with `!`".to_owned();
            return Err(Problem { help: Some(help), ..self.error(at..at, "a tag has no meaning here") });
        }
        Ok(name)
    }

    /// Checks the name of an anchor. In YAML 1.1, a colon does not belong to it.
    pub(super) fn anchor(&self, name: &str, at: Range<usize>) -> Result<(), Problem> {
        let help = "write a space before the colon, or name the anchor without one".to_owned();
        let error = || Problem { help: Some(help), ..self.error(at, "a colon in the name of an anchor") };
        if name.contains(':') { Err(error()) } else { Ok(()) }
    }

    /// Warns of the plain text at `at`, if it is one text in lines that look like shortcuts of a list, `Name=value`. A line behind
    /// a comma is part of the item above.
    pub(super) fn missing_dash(&mut self, at: &Range<usize>) {
        let text = self.text.get(at.clone()).unwrap_or_default();
        if !text.trim_end().contains('\n') {
            return;
        }
        let mut lines = text.split('\n').map(str::trim).filter(|line| !line.is_empty()).peekable();
        let mut second = at.start;
        while let Some(line) = lines.next() {
            let name = line.split('=').next().unwrap_or_default();
            // A key in base64 has longer lines, and `=` at its end alone.
            let is_shortcut = (1..=40).contains(&name.len())
                && name.len() < line.len()
                && name.bytes().all(|byte| byte.is_ascii_alphanumeric());
            if !is_shortcut || line.ends_with(',') && lines.peek().is_some() {
                return;
            }
            if second == at.start {
                second +=
                    lines.peek().and_then(|next| text[line.len()..].find(next)).map_or(0, |next| line.len() + next);
            }
        }
        let in_list = self.open.last().filter(|open| matches!(open.content, Content::List(_)));
        let (start, mark) = match in_list {
            Some(open) if open.is_flow => (second, "a comma before it"),
            Some(_) => (second, "`- ` before it"),
            None => (at.start, "`- ` before each of its lines"),
        };
        let what = if start == second { "this line is part of the text above" } else { "these lines are one text" };
        self.parsed.warnings.push(Problem {
            at: Span::new(self.file, Bytes::new(start..start)),
            message: format!("{what}, not an item of a list"),
            help: Some(format!("write {mark}; quote a text over several lines: `\"…\"`")),
            first: None,
        });
    }

    /// Checks a plain scalar. Within brackets, YAML 1.1 has a key behind a question mark.
    pub(super) fn plain(&self, text: &str, at: &Range<usize>) -> Result<(), Problem> {
        if !text.starts_with('?') || !self.open.last().is_some_and(|open| open.is_flow) {
            return Ok(());
        }
        let help = "quote a text that begins with `?` within `[…]` and `{…}`".to_owned();
        Err(Problem { help: Some(help), ..self.error(at.clone(), "a text begins with `?`") })
    }
}
