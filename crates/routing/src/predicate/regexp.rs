//! A regular expression that a whole value must match.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Weak};

use tollgate_java_regex::{Charset, JavaRegex, RegexError};

use super::PredicateError;

/// Expressions that are remembered at once.
const MAX_KNOWN: usize = 1024;

thread_local! {
    /// What is compiled already and in use. Thousands of routes may ask for the same, which takes kilobytes and some
    /// ten microseconds each time.
    static KNOWN: RefCell<HashMap<Box<str>, Weak<JavaRegex>>> = RefCell::default();
}

#[derive(Clone, Debug)]
pub(super) struct Regexp {
    written: Box<str>,
    compiled: Arc<JavaRegex>,
}

// === impl Regexp ===

impl Regexp {
    pub(super) fn parse(written: &str) -> Result<Self, PredicateError> {
        let compiled =
            compiled(written).map_err(|source| PredicateError::Regexp { regexp: written.to_owned(), source })?;
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

fn compiled(written: &str) -> Result<Arc<JavaRegex>, RegexError> {
    KNOWN.with_borrow_mut(|known| {
        if let Some(regex) = known.get(written).and_then(Weak::upgrade) {
            return Ok(regex);
        }
        let regex = Arc::new(JavaRegex::full_match(written, Charset::Unicode)?);
        if known.len() >= MAX_KNOWN {
            known.clear();
        }
        known.insert(written.into(), Arc::downgrade(&regex));
        Ok(regex)
    })
}

impl fmt::Display for Regexp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.written)
    }
}
