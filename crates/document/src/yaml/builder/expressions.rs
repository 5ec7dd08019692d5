//! Expressions of Spring's, `#{…}`, that YAML reads as comments.

use std::ops::Range;

use super::{Builder, Content};
use crate::yaml::key::same_name;
use crate::yaml::parse::Problem;
use crate::yaml::span::{Bytes, Span};

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
        let effect = match is_empty {
            true => format!("`{key}` has no value"),
            false => format!("the value of `{key}` ends before it"),
        };
        let problem = Problem {
            at: Span::new(self.file, Bytes::new(start..start)),
            message: format!("`#{{…}}` behind a space is a comment of YAML: {effect}"),
            help: Some(format!("quote the whole value: `{key}: \"…#{{…}}\"`")),
            first: None,
        };
        if is_empty && same_name(key, "key-resolver") {
            self.parsed.problems.push(problem);
        } else {
            self.parsed.warnings.push(problem);
        }
    }
}
