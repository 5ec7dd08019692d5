//! Rows of the table of filters, and the input of their checks.

use crate::diagnostics::Diagnostics;
use crate::filters::context::FilterContext;
use crate::filters::model::Filter;
use crate::spec::FilterSpec;
use crate::spec::argument::Argument;
use crate::spec::definition::Arg;

/// A filter that routes can have.
#[derive(Debug)]
pub struct Entry {
    /// Its name, in Spring Cloud Gateway too if Spring has it.
    pub name: &'static str,
    /// Its effect, as one sentence of Markdown.
    pub doc: &'static str,
    /// Its arguments.
    pub args: Arguments,
    pub(super) check: fn(&FilterInput<'_>, &mut Diagnostics) -> Option<Filter>,
}

/// Arguments of a filter.
#[derive(Clone, Copy, Debug)]
pub enum Arguments {
    /// A list in the order of the shortcut `Name=a,b`.
    Listed(&'static [Argument]),
    /// A typed struct, by its schema. A shortcut has the first arguments of the struct.
    Typed(ArgumentSchema),
    /// A typed struct, by its schema, without a shortcut. Values may be Spring's bean references `#{@name}`.
    LongForm(ArgumentSchema),
}

/// Schema of a struct of arguments. Only tests have it: they compare it with `config/schema.json`.
#[derive(Clone, Copy, Debug)]
pub struct ArgumentSchema {
    #[cfg(test)]
    pub(super) of: fn(&mut schemars::SchemaGenerator) -> schemars::Schema,
}

/// [`ArgumentSchema`] of a type.
macro_rules! schema_of {
    ($type:ty) => {
        $crate::filters::entry::ArgumentSchema {
            #[cfg(test)]
            of: |generator| generator.subschema_for::<$type>(),
        }
    };
}

pub(super) use schema_of;

/// The specification of a filter, and what its check needs.
pub(super) struct FilterInput<'c> {
    pub(super) spec: &'c FilterSpec,
    pub(super) args: &'static [Argument],
    pub(super) context: &'c FilterContext<'c>,
}

impl<'c> FilterInput<'c> {
    /// Returns the first `N` arguments of the entry, if the file has them.
    pub(super) fn arguments<const N: usize>(&self, diagnostics: &mut Diagnostics) -> [Option<&'c Arg>; N] {
        let names = std::array::from_fn(|at| self.args.get(at).map_or("", |argument| argument.name));
        self.spec.arguments(names, diagnostics)
    }

    /// Returns the values of the first `N` arguments of the entry. Reports missing ones.
    pub(super) fn texts<const N: usize>(&self, diagnostics: &mut Diagnostics) -> Option<[&'c str; N]> {
        let found = self.arguments::<N>(diagnostics);
        let mut texts = [""; N];
        for ((text, arg), argument) in texts.iter_mut().zip(found).zip(self.args) {
            *text = &self.spec.required(arg, argument.name, diagnostics)?.value;
        }
        Some(texts)
    }
}
