//! Rows of the table of predicates: name, documentation, arguments and constructor.

use std::sync::Arc;

use super::Predicate;
use super::error::PredicateError;
use super::rows::version::ApiVersions;

/// A predicate that a configuration can name.
#[derive(Clone, Copy, Debug)]
pub struct PredicateRow {
    /// Its name, as Spring Cloud Gateway has it.
    pub name: &'static str,
    /// Its condition, as one sentence of Markdown.
    pub doc: &'static str,
    /// Its arguments and its constructor.
    pub form: PredicateForm,
    /// Checks valid values for likely mistakes; `None` if there are none to find.
    pub remarks: Option<fn(&PredicateValues<'_>) -> Vec<Remark>>,
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
    /// One text.
    One([PredicateArgument; 1], fn(&str) -> Result<Predicate, PredicateError>),
    /// Two texts.
    Two([PredicateArgument; 2], fn(&str, &str) -> Result<Predicate, PredicateError>),
    /// Two texts, of which the second may be left out.
    OneOrTwo([PredicateArgument; 2], fn(&str, Option<&str>) -> Result<Predicate, PredicateError>),
    /// One text, and settings of the configuration.
    OneWithSettings([PredicateArgument; 1], fn(&str, &PredicateSettings) -> Result<Predicate, PredicateError>),
    /// A list.
    List([PredicateArgument; 1], fn(&[String]) -> Result<Predicate, PredicateError>),
    /// A list, and an optional text that is given by its name only.
    ListWithOption([PredicateArgument; 2], fn(&[String], Option<&str>) -> Result<Predicate, PredicateError>),
}

/// Settings of a configuration that predicates depend on.
#[derive(Clone, Debug, Default)]
pub struct PredicateSettings {
    /// True for a configuration of Spring's.
    pub is_spring: bool,
    /// True if the configuration names trusted proxies.
    pub trusts_proxies: bool,
    /// Rules for API versions.
    pub versions: Arc<ApiVersions>,
}

/// Values of a predicate in a configuration.
#[derive(Clone, Copy, Debug)]
pub struct PredicateValues<'v> {
    /// Texts, or the items of the list.
    pub texts: &'v [String],
    /// The option of [`PredicateForm::ListWithOption`].
    pub option: Option<&'v str>,
    /// Settings of the configuration.
    pub settings: &'v PredicateSettings,
}

/// A remark about valid values of a predicate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remark {
    /// The part of the predicate that the remark is about.
    pub about: RemarkAbout,
    /// True for values without effect: an error, but a warning in a configuration of Spring's. False for a warning.
    pub is_mistake: bool,
    /// The effect of the values.
    pub message: String,
    /// The remedy.
    pub help: String,
}

/// Part of a predicate in a configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemarkAbout {
    /// The predicate.
    Predicate,
    /// The item at this index of [`PredicateValues::texts`].
    Text(usize),
    /// The name of the option.
    Option,
}

impl PredicateArgument {
    /// Creates a text argument.
    pub(super) const fn text(name: &'static str, doc: &'static str) -> Self {
        Self { name, doc, kind: ValueKind::Text }
    }

    /// Creates an argument that is a whole number.
    pub(super) const fn number(name: &'static str, doc: &'static str) -> Self {
        Self { name, doc, kind: ValueKind::Number }
    }

    /// Creates an argument that is a list.
    pub(super) const fn list(name: &'static str, doc: &'static str) -> Self {
        Self { name, doc, kind: ValueKind::List }
    }
}

impl PredicateForm {
    /// Returns the arguments in the order of the shortcut `Name=a,b`.
    #[must_use]
    pub fn arguments(&self) -> &[PredicateArgument] {
        match self {
            Self::NoArguments(_) => &[],
            Self::One(arguments, _) | Self::OneWithSettings(arguments, _) | Self::List(arguments, _) => arguments,
            Self::Two(arguments, _) | Self::OneOrTwo(arguments, _) | Self::ListWithOption(arguments, _) => arguments,
        }
    }
}

impl Remark {
    /// Creates a warning.
    pub(super) fn warning(about: RemarkAbout, message: impl Into<String>, help: impl Into<String>) -> Self {
        Self { about, is_mistake: false, message: message.into(), help: help.into() }
    }

    /// Creates a remark about a setting without effect.
    pub(super) fn mistake(about: RemarkAbout, message: impl Into<String>, help: impl Into<String>) -> Self {
        Self { is_mistake: true, ..Self::warning(about, message, help) }
    }
}
