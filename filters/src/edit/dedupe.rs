//! `DedupeResponseHeader`.

use http::{HeaderMap, HeaderName, HeaderValue};

use super::{EditError, header};

/// The values of a header that are kept. A line is one value, even if it is a list with commas.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DedupeStrategy {
    /// The first.
    #[default]
    RetainFirst,
    /// The last.
    RetainLast,
    /// Each value once, at its first position.
    RetainUnique,
}

/// Removes duplicate values of headers.
#[derive(Clone, Debug)]
pub(super) struct Dedupe {
    names: Box<[HeaderName]>,
    strategy: DedupeStrategy,
}

// === impl Dedupe ===

impl Dedupe {
    /// Parses `names`, which are separated by spaces.
    pub(super) fn new(names: &str, strategy: DedupeStrategy) -> Result<Self, EditError> {
        let names: Box<[_]> = names.split_ascii_whitespace().map(header::parse_name).collect::<Result<_, _>>()?;
        if names.is_empty() {
            return Err(EditError::HeaderName(String::new()));
        }
        Ok(Self { names, strategy })
    }

    pub(super) fn names(&self) -> &[HeaderName] {
        &self.names
    }

    pub(super) fn apply(&self, headers: &mut HeaderMap) {
        for name in &self.names {
            let mut values: Vec<HeaderValue> = headers.get_all(name).iter().cloned().collect();
            if values.len() < 2 {
                continue;
            }
            match self.strategy {
                DedupeStrategy::RetainFirst => values.truncate(1),
                DedupeStrategy::RetainLast => drop(values.drain(..values.len() - 1)),
                DedupeStrategy::RetainUnique => {
                    let all = std::mem::take(&mut values);
                    for value in all {
                        if !values.contains(&value) {
                            values.push(value);
                        }
                    }
                }
            }
            header::replace_all(headers, name, values);
        }
    }
}
