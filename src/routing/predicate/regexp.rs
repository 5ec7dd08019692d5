//! A regular expression that a whole value must match.

use std::fmt;

use regex::Regex;

use super::super::java_regex;
use super::PredicateError;

#[derive(Clone, Debug)]
pub(super) struct Regexp {
    written: Box<str>,
    compiled: Regex,
}

// === impl Regexp ===

impl Regexp {
    pub(super) fn parse(written: &str) -> Result<Self, PredicateError> {
        let compiled = java_regex::full_match(written)
            .map_err(|source| PredicateError::Regexp { regexp: written.to_owned(), source })?;
        Ok(Self { written: written.into(), compiled })
    }

    pub(super) fn optional(written: Option<&str>) -> Result<Option<Self>, PredicateError> {
        written.map(Self::parse).transpose()
    }

    pub(super) fn matches(&self, value: &str) -> bool {
        self.compiled.is_match(value)
    }
}

impl fmt::Display for Regexp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.written)
    }
}
