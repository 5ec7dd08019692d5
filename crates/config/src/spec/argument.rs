//! Documented arguments of predicates and filters.

/// An argument of a predicate or filter.
#[derive(Clone, Copy, Debug)]
pub struct Argument {
    /// Its name.
    pub name: &'static str,
    /// Meaning, unit and default, in sentences of Markdown.
    pub doc: &'static str,
    /// Its type.
    pub kind: ArgumentType,
}

/// Type of an [`Argument`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArgumentType {
    /// A text.
    Text,
    /// `true` or `false`.
    Flag,
    /// A whole number.
    Number,
    /// A number of bytes such as `64KB`.
    Size,
    /// A time such as `5s`.
    Duration,
    /// A status by number or name.
    Status,
    /// A header name.
    HeaderName,
    /// One text or a list of texts.
    List,
}

impl Argument {
    /// Creates the text argument `name` with the documentation `doc`.
    pub(crate) const fn new(name: &'static str, doc: &'static str) -> Self {
        Self { name, doc, kind: ArgumentType::Text }
    }

    /// Returns the same argument with the type `kind`.
    pub(crate) const fn of(self, kind: ArgumentType) -> Self {
        Self { kind, ..self }
    }
}
