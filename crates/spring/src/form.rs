//! Forms of a configuration.

/// Form of a configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Our sections at the top level.
    Own,
    /// Spring's `application.yml`.
    Spring,
}
