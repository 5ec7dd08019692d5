//! A regular expression that must match a whole value.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Weak};

use tollgate_java_regex::{Charset, JavaRegex, RegexError};

use super::row::PredicateArgument;
use crate::decision::Decision;
use crate::error::PredicateError;

/// Optional argument of predicates on values.
pub(super) const OPTIONAL_REGEXP: PredicateArgument =
    PredicateArgument::text("regexp", "Regular expression that must match a whole value. Default: any value.");

/// Text in place of an expression, which may be a secret.
const MASK: &str = "****";

/// Maximum number of cached expressions.
const MAX_CACHED: usize = 1024;

thread_local! {
    /// Compiled expressions that are in use. Thousands of routes may have the same expression; compiling it takes some
    /// ten microseconds and kilobytes each time.
    static CACHE: RefCell<HashMap<Box<str>, Weak<JavaRegex>>> = RefCell::default();
}

/// An expression for whole values, displayed as configured; by `{:#}` as [`MASK`].
#[derive(Clone, Debug)]
pub(super) struct ValueRegex {
    source: Box<str>,
    compiled: Arc<JavaRegex>,
}

// === impl ValueRegex ===

impl ValueRegex {
    pub(super) fn parse(source: &str) -> Result<Self, PredicateError> {
        let compiled =
            compile(source).map_err(|error| PredicateError::Regexp { regexp: source.to_owned(), source: error })?;
        Ok(Self { source: source.into(), compiled })
    }

    pub(super) fn parse_optional(source: Option<&str>) -> Result<Option<Self>, PredicateError> {
        source.map(Self::parse).transpose()
    }

    /// Decides if `value` matches. A search that takes too long is undecided.
    pub(super) fn decide(&self, value: &str) -> Decision {
        self.compiled.is_match(value).into()
    }
}

fn compile(source: &str) -> Result<Arc<JavaRegex>, RegexError> {
    CACHE.with_borrow_mut(|cache| {
        if let Some(regex) = cache.get(source).and_then(Weak::upgrade) {
            return Ok(regex);
        }
        let regex = Arc::new(JavaRegex::full_match(source, Charset::Unicode)?);
        if cache.len() >= MAX_CACHED {
            cache.clear();
        }
        cache.insert(source.into(), Arc::downgrade(&regex));
        Ok(regex)
    })
}

/// The text decides what is compiled.
impl PartialEq for ValueRegex {
    fn eq(&self, other: &Self) -> bool {
        self.source == other.source
    }
}

impl fmt::Display for ValueRegex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if f.alternate() { MASK } else { &self.source })
    }
}
