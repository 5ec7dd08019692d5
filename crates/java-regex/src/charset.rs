//! The encoding of texts.

/// The encoding of the texts that an expression is matched with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Charset {
    /// Each byte is a character (ISO 8859-1), as in raw paths and field values.
    Bytes,
    /// UTF-8.
    Unicode,
}
