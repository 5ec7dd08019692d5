//! Equal warnings and notes of a file, shown once.

use std::borrow::Cow;
use std::collections::HashMap;
use std::collections::hash_map::Entry;

use crate::diagnostics::report::{Diagnostic, Severity};

/// Maximum number of further lines in a message.
const MAX_LINES: usize = 5;

/// Keeps the first of equal warnings and notes of a file, with the lines of the others. Errors stay one by one.
pub(super) fn join(list: Vec<Diagnostic>) -> Vec<Diagnostic> {
    let mut kept: Vec<Diagnostic> = Vec::with_capacity(list.len());
    let mut seen: HashMap<(usize, Severity, String, Option<String>), usize> = HashMap::new();
    for found in list {
        if found.severity == Severity::Error || found.line == 0 {
            kept.push(found);
            continue;
        }
        match seen.entry((found.file, found.severity, found.message.clone(), found.help.clone())) {
            Entry::Occupied(first) => {
                let first = &mut kept[*first.get()];
                if first.also.last().copied().unwrap_or(first.line) != found.line {
                    first.also.push(found.line);
                }
            }
            Entry::Vacant(first) => {
                first.insert(kept.len());
                kept.push(found);
            }
        }
    }
    kept
}

impl Diagnostic {
    /// Returns the message, with the further lines to which it applies: five at most, and the number of the rest.
    #[must_use]
    pub fn text(&self) -> Cow<'_, str> {
        if self.also.is_empty() {
            return Cow::Borrowed(&self.message);
        }
        let shown: Vec<String> = self.also.iter().take(MAX_LINES).map(ToString::to_string).collect();
        let rest = self.also.len() - shown.len();
        let more = if rest > 0 { format!(" and {rest} more") } else { String::new() };
        let word = if self.also.len() == 1 { "line" } else { "lines" };
        Cow::Owned(format!("{} (also in {word} {}{more})", self.message, shown.join(", ")))
    }
}
