//! Names that are not known, and stand for names whose values are secrets.

use std::collections::HashSet;

use super::names::{ValueKind, is_value_key};
use crate::diagnostics::unknown::{UnknownKind, UnknownName};

/// Names that are not known, as the diagnostics of a configuration report them.
#[derive(Clone, Debug, Default)]
pub(in crate::diagnostics) struct UnknownNames {
    /// Keys for which the key of a secret, or of a section with secrets, is suggested: the last part of each.
    keys: HashSet<String>,
    /// Keys for which `value` or `regexp` is suggested: their values are secrets beside the name of one.
    values: HashSet<String>,
    /// Filters and predicates.
    components: HashSet<String>,
}

impl UnknownNames {
    /// Collects the names that are `unknown`.
    pub(in crate::diagnostics) fn of<'u>(unknown: impl Iterator<Item = &'u UnknownName>) -> Self {
        let mut names = Self::default();
        for unknown in unknown {
            match unknown.kind {
                UnknownKind::Component => {
                    names.components.insert(unknown.name.clone());
                }
                UnknownKind::Key if unknown.suggested.as_deref().is_some_and(has_secrets) => {
                    names.keys.insert(last_part(&unknown.name).to_owned());
                }
                UnknownKind::Key if unknown.suggested.as_deref().is_some_and(is_value_key) => {
                    names.values.insert(unknown.name.clone());
                }
                UnknownKind::Key => {}
            }
        }
        names
    }

    /// Returns true for a key whose value is a secret under its suggested name.
    pub(super) fn has_key(&self, key: &str) -> bool {
        self.keys.contains(last_part(key))
    }

    /// Returns true for a key whose value is a secret beside the name of one.
    pub(super) fn has_value_key(&self, key: &str) -> bool {
        self.values.contains(key)
    }

    /// Returns true for a filter or predicate.
    pub(super) fn has_component(&self, name: &str) -> bool {
        self.components.contains(name)
    }
}

fn last_part(key: &str) -> &str {
    key.rsplit('.').next().unwrap_or(key)
}

fn has_secrets(key: &str) -> bool {
    ValueKind::Other.below(key).has_secrets()
}
