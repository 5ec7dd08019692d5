//! Predicates by name: what each asks, its arguments, and how it is read. One table for dispatch, messages and
//! documentation. What joins several of them is in `condition`.

mod condition;
mod entries;
mod entry;
mod networks;
mod patterns;
pub(crate) mod raw;
mod settings;
mod weights;

use crate::diagnostics::{Diagnostics, closest, reasons};
use crate::spring::names::refusal;
use crate::spring::spec::Written;
use crate::spring::switches;
use tollgate_routing::Predicate;

pub(crate) use condition::Condition;
use entry::Call;
pub use entry::{Entry, Takes};
pub(crate) use settings::Settings;
pub(crate) use weights::Groups;

/// Every predicate, by name.
pub fn predicates() -> &'static [Entry] {
    entries::ENTRIES
}

/// The names of all predicates.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    predicates().iter().map(|entry| entry.name)
}

/// The predicate that `written` means; `None` when it cannot be used, which `sink` then knows.
fn check(written: &Written, settings: &Settings<'_>, diagnostics: &mut Diagnostics) -> Option<Predicate> {
    let Some(entry) = predicates().iter().find(|entry| entry.name == written.name) else {
        unknown(written, diagnostics);
        return None;
    };
    if settings.switches.refuse(switches::Kind::Predicate, written, diagnostics)
        || written.refuse_expressions(diagnostics)
    {
        return None;
    }
    let result = (entry.check)(&Call { written, args: entry.args, settings }, diagnostics)?;
    let complain = |error| {
        let message = reasons(&error);
        diagnostics.error(written.quoted_in(&message), message);
    };
    result.map_err(complain).ok()
}

fn unknown(written: &Written, diagnostics: &mut Diagnostics) {
    let name = written.name.as_str();
    if let Some(refusal) = refusal(name) {
        diagnostics
            .error(written.span, format!("predicate `{name}` cannot be used: {}", refusal.reason))
            .help(refusal.instead);
        return;
    }
    diagnostics.error(written.span, format!("unknown predicate `{name}`")).help(match closest(name, names()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("predicates: {}", names().collect::<Vec<_>>().join(", ")),
    })
}

#[cfg(test)]
mod tests;
