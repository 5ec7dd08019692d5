//! A regular expression that a whole value must match.

use std::fmt;

use tollgate_filters::java_regex::{Charset, JavaRegex};

use super::PredicateError;

#[derive(Clone, Debug)]
pub(super) struct Regexp {
    written: Box<str>,
    compiled: JavaRegex,
}

// === impl Regexp ===

impl Regexp {
    pub(super) fn parse(written: &str) -> Result<Self, PredicateError> {
        let compiled = JavaRegex::full_match(written, Charset::Unicode)
            .map_err(|source| PredicateError::Regexp { regexp: written.to_owned(), source })?;
        Ok(Self { written: written.into(), compiled })
    }

    pub(super) fn optional(written: Option<&str>) -> Result<Option<Self>, PredicateError> {
        written.map(Self::parse).transpose()
    }

    /// What takes too long to say does not match, as an exception in a Spring predicate.
    pub(super) fn matches(&self, value: &str) -> bool {
        self.compiled.is_match(value).unwrap_or_default()
    }
}

impl fmt::Display for Regexp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.written)
    }
}
