//! Rows of the table of filters, and the input of their checks.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;

use http::header::HeaderName;
use serde::de::DeserializeOwned;
use tollgate_filters::edit::{Edit, EditError};

use crate::de::field_names;
use crate::diagnostics::{Diagnostics, Reported, reasons};
use crate::filters::for_all_routes::RawFilterSettings;
use crate::filters::model::Filter;
use crate::rate_limiter::context::LimiterContext;
use crate::sections::resilience::Resilience;
use crate::spec::{FilterSpec, Shortcut};
use crate::switches::Switches;
use crate::yaml::Span;

/// A filter that routes can have.
#[derive(Debug)]
pub struct Entry {
    /// Its name, in Spring Cloud Gateway too if Spring has it.
    pub name: &'static str,
    /// Its effect, as one sentence of Markdown.
    pub doc: &'static str,
    /// Its arguments.
    pub(crate) args: Arguments,
    pub(crate) check: fn(&FilterInput<'_>, &mut Diagnostics) -> Result<Filter, Reported>,
}

/// Arguments of a filter: a struct with a field for each.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arguments {
    /// Meaning of a shortcut.
    pub(crate) shortcut: Shortcut,
    /// Names of the arguments.
    pub(crate) names: fn() -> &'static [&'static str],
    /// Schema of the struct. Only tests have it: they compare it with `config/schema.json`.
    #[cfg(test)]
    pub(super) schema: fn(&mut schemars::SchemaGenerator) -> schemars::Schema,
}

/// Settings and registries that all filters of one file share.
pub(crate) struct FilterContext<'s> {
    /// Disabled filters.
    pub(crate) switches: &'s Switches,
    /// `filter`.
    pub(crate) filter: &'s RawFilterSettings,
    /// Settings of limiters.
    pub(crate) limiters: LimiterContext<'s>,
    /// `resilience4j`.
    pub(crate) resilience: Resilience,
    /// `set-status.original-status-header-name`.
    pub(crate) original_status_header: Option<HeaderName>,
    /// Names of the circuit breakers of routes, collected while they are read.
    pub(crate) breakers: RefCell<BTreeSet<String>>,
    /// Paths that requests are forwarded to within the gateway, collected while routes are read.
    pub(crate) forwards: RefCell<Vec<(Span, String)>>,
}

/// The specification of a filter, and what its check needs.
pub(crate) struct FilterInput<'c> {
    pub(crate) spec: &'c FilterSpec<'c>,
    pub(crate) shortcut: Shortcut,
    pub(crate) context: &'c FilterContext<'c>,
    /// Set after an error of an argument that is read as if it were absent.
    pub(super) reported: Cell<Option<Reported>>,
}

/// Row of a filter that is one edit: its name, arguments and documentation, and the edit of the arguments.
macro_rules! edit {
    ($name:literal($args:ty) $doc:literal: $edit:expr) => {
        $crate::filters::row::Entry {
            name: $name,
            doc: $doc,
            args: $crate::filters::row::Arguments::of::<$args>($crate::spec::Shortcut::All),
            check: |input, diagnostics| input.edit::<$args>($edit, diagnostics),
        }
    };
}

pub(super) use edit;

impl Arguments {
    /// Returns the arguments that the struct `T` has, which a shortcut gives as `shortcut` says.
    #[cfg(test)]
    pub(crate) const fn of<T: DeserializeOwned + schemars::JsonSchema>(shortcut: Shortcut) -> Self {
        Self { shortcut, names: field_names::<T>, schema: |generator| generator.subschema_for::<T>() }
    }

    /// Returns the arguments that the struct `T` has, which a shortcut gives as `shortcut` says.
    #[cfg(not(test))]
    pub(crate) const fn of<T: DeserializeOwned>(shortcut: Shortcut) -> Self {
        Self { shortcut, names: field_names::<T> }
    }
}

impl FilterInput<'_> {
    /// Returns the arguments as a `T`. Reports values of the wrong type, and arguments that are unknown or missing.
    pub(crate) fn read<T: DeserializeOwned>(&self, diagnostics: &mut Diagnostics) -> Result<T, Reported> {
        let (args, reported) = self.spec.read(self.shortcut, diagnostics)?;
        self.reported.set(reported);
        Ok(args)
    }

    /// Returns the edit that `edit` makes of the arguments `T`.
    pub(super) fn edit<T: DeserializeOwned>(
        &self,
        edit: fn(&T) -> Result<Edit, EditError>,
        diagnostics: &mut Diagnostics,
    ) -> Result<Filter, Reported> {
        let edit = edit(&self.read(diagnostics)?);
        self.finish(edit, diagnostics)
    }

    /// Returns the edit as a filter, or reports its error at the argument that it is about.
    pub(super) fn finish(
        &self,
        edit: Result<Edit, EditError>,
        diagnostics: &mut Diagnostics,
    ) -> Result<Filter, Reported> {
        let edit = edit.map_err(|error| self.refuse(&error, error.value(), diagnostics))?;
        if edit.differs_from_java() {
            diagnostics
                .warn(self.spec.span, "the expression repeats a part that can be empty: Java may match differently")
                .help("repeat a part that cannot be empty: `(a+)*` for `(a*)*`");
        }
        Ok(Filter::Edit(edit))
    }

    /// Reports `error` at the argument with the value that it is about.
    pub(super) fn refuse(
        &self,
        error: &dyn std::error::Error,
        value: Option<&str>,
        diagnostics: &mut Diagnostics,
    ) -> Reported {
        diagnostics.error(self.spec.place_of(value), reasons(error)).reported()
    }
}
