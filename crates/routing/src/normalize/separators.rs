//! Encoded separators: `%2F`, `\` and `%5C`, which upstreams interpret in different ways.

use std::borrow::Cow;

use super::PathError;

/// Treatment of encoded slashes and of backslashes in paths.
///
/// The default keeps encoded slashes and rejects backslashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathRules {
    /// `%2F`.
    pub encoded_slash: Separator,
    /// `\` and `%5C`.
    pub backslash: Separator,
}

/// Treatment of a character that some upstreams read as a separator of segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Separator {
    /// It stays encoded, and belongs to its segment.
    Keep,
    /// It becomes a `/`.
    Decode,
    /// The path is an error.
    Reject,
}

// === impl PathRules ===

impl PathRules {
    /// Rejects encoded slashes and backslashes.
    pub const STRICT: Self = Self { encoded_slash: Separator::Reject, backslash: Separator::Reject };

    /// Decodes or rejects separators in `path`.
    pub(super) fn apply(self, path: &str) -> Result<Cow<'_, str>, PathError> {
        let path = replace(path, self.encoded_slash, &["%2F", "%2f"], PathError::EncodedSlash)?;
        match replace(&path, self.backslash, &["\\", "%5C", "%5c"], PathError::Backslash)? {
            Cow::Owned(replaced) => Ok(Cow::Owned(replaced)),
            Cow::Borrowed(_) => Ok(path),
        }
    }
}

impl Default for PathRules {
    fn default() -> Self {
        Self { encoded_slash: Separator::Keep, backslash: Separator::Reject }
    }
}

/// Applies `treatment` to one separator, which is written in one of `spellings`.
fn replace<'p>(
    path: &'p str,
    treatment: Separator,
    spellings: &[&str],
    error: PathError,
) -> Result<Cow<'p, str>, PathError> {
    if treatment == Separator::Keep || !spellings.iter().any(|spelling| path.contains(spelling)) {
        return Ok(Cow::Borrowed(path));
    }
    if treatment == Separator::Reject {
        return Err(error);
    }
    Ok(Cow::Owned(spellings.iter().fold(path.to_owned(), |path, spelling| path.replace(spelling, "/"))))
}

/// Checks one segment whose unreserved characters are decoded and whose other escapes are in upper case.
///
/// Some upstreams decode a segment before they split the path, or remove its parameters. They must see the same segments
/// as the gateway.
pub(super) fn check_segment(segment: &str) -> Result<(), PathError> {
    let has_separator = segment.contains("%2F") || segment.contains("%5C");
    let pieces = segment.split("%2F").flat_map(|piece| piece.split("%5C"));
    for piece in pieces {
        let end = [piece.find(';'), piece.find("%3B")].into_iter().flatten().min();
        let name = end.map_or(piece, |end| piece.get(..end).unwrap_or_default());
        match name {
            "." | ".." if has_separator => return Err(PathError::DotSegmentSeparator),
            "." | ".." if end.is_some() => return Err(PathError::DotSegmentParameters),
            "" if end.is_some() => return Err(PathError::EmptySegmentParameters),
            _ => {}
        }
    }
    Ok(())
}
