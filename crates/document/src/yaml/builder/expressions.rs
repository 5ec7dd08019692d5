//! Expressions of Spring's, `#{…}`, that YAML reads as comments.

use std::ops::Range;

use super::{Builder, Content};
use crate::yaml::key::same_name;
use crate::yaml::parse::Problem;
use crate::yaml::span::{Bytes, Span};

/// Places that an error looks at: a line may have millions.
const MAX_PLACES: usize = 8;

impl Builder<'_> {
    /// Reports ` #{…}` behind the plain value at `at`, which YAML reads as a comment. A key resolver that it leaves without a
    /// value would be another one, so it is an error.
    pub(super) fn expression(&mut self, at: &Range<usize>) {
        let is_empty = at.is_empty();
        let key_end = self.key_bytes().map(|key| key.range().end).filter(|_| is_empty);
        let behind = self.text.get(key_end.unwrap_or(at.end)..).unwrap_or_default();
        let signs: &[char] = if is_empty { &['"', '\'', ':', ' ', '\t'] } else { &[' ', '\t'] };
        let comment = behind.trim_start_matches(signs);
        if !comment.starts_with("#{") || !behind[..behind.len() - comment.len()].ends_with([' ', '\t']) {
            return;
        }
        let start = key_end.unwrap_or(at.end) + behind.len() - comment.len();
        let key = self.open.iter().rev().find_map(|open| match &open.content {
            Content::Map(map) => map.key.as_ref().map(|(key, _)| key.as_str()),
            Content::List(_) => None,
        });
        let key = key.and_then(|key| key.rsplit('.').next()).unwrap_or_default();
        let is_item = self.open.last().is_some_and(|open| matches!(open.content, Content::List(_)));
        let effect = match (is_empty, is_item) {
            (true, _) => format!("`{key}` has no value"),
            (false, false) => format!("the value of `{key}` ends before it"),
            (false, true) => format!("the item of `{key}` ends before it"),
        };
        let start_of_value = if is_item { "- ".to_owned() } else { format!("{key}: ") };
        let problem = Problem {
            at: Span::new(self.file, Bytes::new(start..start)),
            message: cut_off("space", &effect),
            help: Some(format!("quote the whole value: `{start_of_value}\"…#{{…}}\"`")),
            first: None,
        };
        if is_empty && same_name(key, "key-resolver") {
            self.parsed.problems.push(problem);
        } else {
            self.parsed.warnings.push(problem);
        }
    }

    /// Describes `#{…}` in brackets before the syntax error at `at`: the closing brackets are a part of the comment.
    pub(super) fn cut_off_in_brackets(&self, at: usize) -> Option<Problem> {
        // The place of a bracket that is never closed is its own.
        let is_unclosed = self.text.get(at..)?.starts_with(['[', '{']);
        let outermost = self.open.iter().find(|open| open.is_flow).map(|open| open.span.bytes().range().start);
        // The parser looks ahead for a key: what begins in the line above may not be known yet.
        let begin = outermost.or(is_unclosed.then_some(at)).or_else(|| self.line_above(at))?;
        let end = if is_unclosed { self.text.len() } else { self.text.len().min(at + "#{".len()) };
        let within = self.text.get(begin..end)?;
        let is_comment = |at: &usize| {
            let line = &within[within[..*at].rfind('\n').unwrap_or(0)..*at];
            let has_open = |quote| line.matches(quote).count() % 2 == 1;
            let number = |signs: [char; 2]| within[..*at].matches(signs).count();
            let is_within = number(['[', '{']) > number([']', '}']);
            is_within && line.ends_with([' ', '\t', ',']) && !has_open('"') && !has_open('\'')
        };
        let start = within.match_indices("#{").map(|(at, _)| at).take(MAX_PLACES).find(is_comment)?;
        let before = &within[..start];
        let key = before.trim_end().strip_suffix(':').unwrap_or_default();
        let key = key.rsplit(|c: char| !(c.is_alphanumeric() || "-_.".contains(c))).next().unwrap_or_default();
        let sign = if before.ends_with(',') { "comma" } else { "space" };
        let (effect, help) = match key {
            "" => ("the rest of the line is cut off".to_owned(), "quote the whole value: `\"…#{…}\"`".to_owned()),
            key => (format!("`{key}` has no value"), format!("quote the whole value: `{key}: \"…#{{…}}\"`")),
        };
        let start = begin + start;
        Some(Problem { help: Some(help), ..self.error(start..start, &cut_off(sign, &effect)) })
    }

    /// Returns the first bracket of the line above `at`, if it has one.
    fn line_above(&self, at: usize) -> Option<usize> {
        let above = self.text[..at].trim_end();
        let start = above.rfind('\n').map_or(0, |end| end + 1);
        above[start..].find(['[', '{']).map(|bracket| start + bracket)
    }
}

fn cut_off(sign: &str, effect: &str) -> String {
    format!("`#{{…}}` behind a {sign} is a comment of YAML: {effect}")
}
