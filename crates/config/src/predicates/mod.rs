//! Predicates by name: what each asks, its arguments, and how it is read. One table for dispatch, messages and
//! documentation. What joins several of them is in `condition`.

mod condition;
mod entries;
mod networks;
mod patterns;
pub(crate) mod raw;
mod settings;
mod weights;

use crate::diagnostics::{Diagnostics, closest, reasons};
use crate::filters::Argument;
use crate::routes::definition::{Arg, Written};
use crate::spring::names::{Known, look_up};
use crate::spring::switches;
use tollgate_routing::{Predicate, PredicateError};

pub(crate) use condition::Condition;
pub(crate) use settings::Settings;
pub(crate) use weights::Groups;

/// A predicate that routes can have.
#[derive(Debug)]
pub struct Entry {
    /// Its name, as Spring Cloud Gateway has it.
    pub name: &'static str,
    /// When it holds, as one sentence of Markdown.
    pub doc: &'static str,
    /// Its arguments in the order of the shortcut `Name=a,b`.
    pub args: &'static [Argument],
    /// How the arguments of the shortcut are divided.
    pub takes: Takes,
    check: fn(&Call<'_>, &mut Diagnostics) -> Option<Result<Predicate, PredicateError>>,
}

/// How the arguments of a shortcut are divided between those of its predicate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    /// One each.
    Each,
    /// All to the first, which is a list. Others are written by name.
    List,
    /// All to the first, but a last `true` or `false`, which is the second's.
    ListAndFlag,
}

/// A predicate as written, about to be read.
struct Call<'c> {
    written: &'c Written,
    args: &'static [Argument],
    settings: &'c Settings<'c>,
}

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
    match look_up(name) {
        Known::Later => diagnostics
            .error(written.span, format!("predicate `{name}` is not supported yet"))
            .help("remove it, or keep this route on Spring Cloud Gateway for now"),
        Known::Refused(why, instead) => {
            diagnostics.error(written.span, format!("predicate `{name}` cannot be used: {why}")).help(instead)
        }
        Known::No => {
            diagnostics.error(written.span, format!("unknown predicate `{name}`")).help(match closest(name, names()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("predicates: {}", names().collect::<Vec<_>>().join(", ")),
            })
        }
    }
}

impl<'c> Call<'c> {
    /// The first `N` arguments of the entry, which has as many: those that are written.
    fn bind<const N: usize>(&self, diagnostics: &mut Diagnostics) -> [Option<&'c Arg>; N] {
        let names = std::array::from_fn(|at| self.args.get(at).map_or("", |argument| argument.name));
        self.written.bind(names, diagnostics)
    }

    /// As [`Self::bind`], the first `R` of which must be there.
    fn texts<const R: usize, const N: usize>(
        &self,
        diagnostics: &mut Diagnostics,
    ) -> Option<([&'c str; R], [Option<&'c str>; N])> {
        let bound = self.bind::<N>(diagnostics);
        let mut required = [""; R];
        for ((text, arg), argument) in required.iter_mut().zip(bound).zip(self.args) {
            *text = &self.written.required(arg, argument.name, diagnostics)?.value;
        }
        Some((required, bound.map(|arg| arg.map(|arg| arg.value.as_str()))))
    }
}

#[cfg(test)]
mod tests;
