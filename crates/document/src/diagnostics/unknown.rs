//! Names that are not known.

use crate::yaml::Span;

/// A name that a diagnostic reports as not known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownName {
    /// Kind of name.
    pub kind: UnknownKind,
    /// Name as it stands in the file.
    pub name: String,
    /// Known name that was probably meant.
    pub suggested: Option<String>,
}

/// Kind of an [`UnknownName`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnknownKind {
    /// A filter or predicate.
    Component,
    /// A key, an argument, or a value of a list of names.
    Key,
}

/// A key that the struct of its section does not have.
pub struct UnknownKey {
    /// Its value.
    pub span: Span,
    /// Keys that lead to it, the key itself last.
    pub path: Vec<String>,
    /// Keys that the struct has.
    pub fields: Vec<&'static str>,
}
