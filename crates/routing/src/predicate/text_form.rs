//! Rows of the table of predicates whose arguments are plain texts.

use super::Predicate;
use super::error::PredicateError;

/// A predicate whose arguments are plain texts.
#[derive(Clone, Copy, Debug)]
pub struct TextPredicate {
    /// Its name, as Spring Cloud Gateway has it.
    pub name: &'static str,
    /// Its condition, as one sentence of Markdown.
    pub doc: &'static str,
    /// Its arguments and its constructor.
    pub form: TextForm,
}

/// Name and documentation of an argument.
#[derive(Clone, Copy, Debug)]
pub struct TextArgument {
    /// Its name.
    pub name: &'static str,
    /// Its meaning and default, in sentences of Markdown.
    pub doc: &'static str,
}

/// Arguments of a [`TextPredicate`], with the constructor that takes their values.
#[derive(Clone, Copy, Debug)]
pub enum TextForm {
    /// No argument.
    NoArguments(fn() -> Predicate),
    /// One argument.
    One([TextArgument; 1], fn(&str) -> Result<Predicate, PredicateError>),
    /// Two arguments.
    Two([TextArgument; 2], fn(&str, &str) -> Result<Predicate, PredicateError>),
    /// Two arguments, of which the second may be left out.
    OneOrTwo([TextArgument; 2], fn(&str, Option<&str>) -> Result<Predicate, PredicateError>),
}

impl TextArgument {
    pub(super) const fn new(name: &'static str, doc: &'static str) -> Self {
        Self { name, doc }
    }
}

impl TextForm {
    /// Returns the arguments in the order of the shortcut `Name=a,b`.
    #[must_use]
    pub fn arguments(&self) -> &[TextArgument] {
        match self {
            Self::NoArguments(_) => &[],
            Self::One(arguments, _) => arguments,
            Self::Two(arguments, _) | Self::OneOrTwo(arguments, _) => arguments,
        }
    }
}
