//! Rows of the table of predicates: name, documentation, arguments and constructor.

use std::sync::Arc;

use super::Predicate;
use super::rows::version::ApiVersions;
use crate::error::PredicateError;

/// A predicate that a configuration can name.
#[derive(Clone, Copy, Debug)]
pub struct PredicateRow {
    /// Its name, as Spring Cloud Gateway has it.
    pub name: &'static str,
    /// Its condition, as one sentence of Markdown.
    pub doc: &'static str,
    /// Its arguments and its constructor.
    pub form: PredicateForm,
    /// Checks the settings for a likely mistake; `None` if there is none to find.
    pub remark: Option<fn(&PredicateSettings) -> Option<Remark>>,
}

/// Name, documentation and type of an argument.
#[derive(Clone, Copy, Debug)]
pub struct PredicateArgument {
    /// Its name.
    pub name: &'static str,
    /// Its meaning and default, in sentences of Markdown.
    pub doc: &'static str,
    /// Its type.
    pub kind: ValueKind,
}

/// Type of a [`PredicateArgument`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueKind {
    /// A text.
    Text,
    /// `true` or `false`.
    Flag,
    /// A whole number.
    Number,
    /// One text or a list of texts.
    List,
}

/// Arguments of a [`PredicateRow`], with the constructor that takes their values.
#[derive(Clone, Copy, Debug)]
pub enum PredicateForm {
    /// No argument.
    NoArguments(fn() -> Predicate),
    /// One text. The constructor also takes the settings of the configuration.
    One([PredicateArgument; 1], fn(&str, &PredicateSettings) -> Result<Predicate, PredicateError>),
    /// Two texts.
    Two([PredicateArgument; 2], fn(&str, &str) -> Result<Predicate, PredicateError>),
    /// Two texts, of which the second may be left out.
    OneOrTwo([PredicateArgument; 2], fn(&str, Option<&str>) -> Result<Predicate, PredicateError>),
    /// A list.
    List([PredicateArgument; 1], fn(&[String]) -> Result<Predicate, PredicateError>),
    /// A list, and an optional text that is given by its name only.
    ListWithOption([PredicateArgument; 2], fn(&[String], Option<&str>) -> Result<Predicate, PredicateError>),
}

/// Settings of a configuration that predicates depend on.
#[derive(Clone, Debug, Default)]
pub struct PredicateSettings {
    /// True if the configuration names trusted proxies.
    pub trusts_proxies: bool,
    /// Rules for API versions.
    pub versions: Arc<ApiVersions>,
}

/// A remark about a predicate that the settings leave without its effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remark {
    /// True for a predicate that never matches: an error, but a warning in a configuration of Spring's. False for a warning.
    pub is_mistake: bool,
    /// The effect.
    pub message: &'static str,
    /// The remedy.
    pub help: &'static str,
}

impl PredicateArgument {
    /// Creates a text argument.
    #[must_use]
    pub const fn text(name: &'static str, doc: &'static str) -> Self {
        Self { name, doc, kind: ValueKind::Text }
    }

    /// Creates an argument that is `true` or `false`.
    #[must_use]
    pub const fn flag(name: &'static str, doc: &'static str) -> Self {
        Self { name, doc, kind: ValueKind::Flag }
    }

    /// Creates an argument that is a whole number.
    #[must_use]
    pub const fn number(name: &'static str, doc: &'static str) -> Self {
        Self { name, doc, kind: ValueKind::Number }
    }

    /// Creates an argument that is a list.
    #[must_use]
    pub const fn list(name: &'static str, doc: &'static str) -> Self {
        Self { name, doc, kind: ValueKind::List }
    }
}

impl PredicateForm {
    /// Returns the arguments in the order of the shortcut `Name=a,b`.
    #[must_use]
    pub fn arguments(&self) -> &[PredicateArgument] {
        match self {
            Self::NoArguments(_) => &[],
            Self::One(arguments, _) | Self::List(arguments, _) => arguments,
            Self::Two(arguments, _) | Self::OneOrTwo(arguments, _) | Self::ListWithOption(arguments, _) => arguments,
        }
    }
}
