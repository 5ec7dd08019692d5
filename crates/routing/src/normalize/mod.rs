//! Path normalization.
//!
//! Routing, limiting and filters all see the normalized path, so no other spelling of a path can bypass a route, a
//! limiter or an access rule. An upstream gets the received spelling if it [keeps](keeps_spelling) the meaning. The rules are those of RFC 3986, section 6.2.2 (escapes of unreserved characters are
//! decoded, other escapes get upper-case digits) and section 5.2.4 (dot segments); repeated `/` are merged. Paths that
//! upstreams are known to interpret differently are rejected: see [`PathError`].

use std::borrow::Cow;

use thiserror::Error;

pub use self::separators::{PathRules, Separator};

mod separators;

/// Error of an invalid request path. The client caused it: respond with 400.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum PathError {
    /// The path does not start with `/`.
    #[error("the path must start with `/`")]
    NotAbsolute,
    /// `%00`, or an unencoded control byte (0x00 to 0x1F, 0x7F).
    #[error("the path contains a NUL or a control byte")]
    Control,
    /// A `%` without two hexadecimal digits after it.
    #[error("the path contains a `%` without two hexadecimal digits after it")]
    MalformedEscape,
    /// `\` or `%5C`: a separator to some upstreams, an ordinary character to others.
    #[error("the path contains a backslash")]
    Backslash,
    /// `%2F`: a separator to some upstreams, an ordinary character to others.
    #[error("the path contains an encoded slash (`%2F`)")]
    EncodedSlash,
    /// A `.` or `..` segment in a path that the gateway made. Those of received paths are resolved.
    #[error("the path contains a dot segment")]
    DotSegment,
    /// A segment such as `..;x`: a dot segment to some upstreams, a name to others.
    #[error("the path contains a dot segment with parameters (`..;`)")]
    DotSegmentParameters,
    /// A segment such as `..%2Fx`: a dot segment to upstreams that decode it.
    #[error("the path contains a dot segment beside an encoded separator (`..%2F`)")]
    DotSegmentSeparator,
    /// A segment such as `;x`, which is empty without its parameters: some upstreams remove it.
    #[error("the path contains an empty segment with parameters (`/;x/`)")]
    EmptySegmentParameters,
    /// More `..` than segments before it.
    #[error("`..` segments in the path lead above its root")]
    AboveRoot,
    /// A byte above 0x7F that is not percent-encoded.
    #[error("the path contains bytes that are not ASCII: percent-encode them")]
    NotAscii,
    /// A space or one of ``" # < > ? ` ``, which RFC 3986 does not allow in a path.
    #[error("the path contains a character that must be percent-encoded")]
    Forbidden,
}

/// Normalizes `path` by the default [`PathRules`].
///
/// # Errors
/// See [`normalize_by`].
pub fn normalize(path: &str) -> Result<Cow<'_, str>, PathError> {
    normalize_by(path, PathRules::default())
}

/// Normalizes `path`, which has no query. Returns a normalized path unchanged; this allocates only if the path contains
/// an encoded `/`, `;` or `\`.
///
/// - `%61` becomes `a`, `%2e` becomes `.`, `%7E` becomes `~`. Other escapes stay and get upper-case digits; so `%2F`
///   does not split a segment.
/// - `//` becomes `/` first; then `.` and `..` segments are removed: `/a//../b` is `/b`.
/// - `rules` decide if encoded slashes and backslashes are kept, become `/`, or are an error.
/// - `|`, `^`, `{`, `}`, `[` and `]`, which browsers send unencoded, stay unencoded.
///
/// Normalizing twice gives the same result as normalizing once.
///
/// # Errors
/// See [`PathError`].
pub fn normalize_by(path: &str, rules: PathRules) -> Result<Cow<'_, str>, PathError> {
    if is_normalized(path.as_bytes()) {
        return Ok(Cow::Borrowed(path));
    }
    let normal = rewrite(&rules.apply(path)?)?;
    Ok(if normal == path { Cow::Borrowed(path) } else { Cow::Owned(normal) })
}

/// Checks a path that filters made from a normalized path and configured text. Its spelling may stay: `//`, and escapes of
/// any character. Encoded separators are configured text, or those that the rules kept.
///
/// # Errors
/// See [`PathError`]: an upstream might read such a path as another one than the gateway.
pub fn check_made(path: &[u8]) -> Result<(), PathError> {
    if is_normalized(path) {
        return Ok(());
    }
    let path = std::str::from_utf8(path).map_err(|_| PathError::NotAscii)?;
    if path.contains('\\') {
        return Err(PathError::Backslash);
    }
    let segments = path.strip_prefix('/').ok_or(PathError::NotAbsolute)?;
    let mut decoded = String::new();
    for segment in segments.split('/') {
        decoded.clear();
        decode_unreserved(segment, &mut decoded)?;
        separators::check_segment(&decoded)?;
        if matches!(&*decoded, "." | "..") {
            return Err(PathError::DotSegment);
        }
    }
    Ok(())
}

/// Returns true if `path`, which `rules` accept, may be forwarded in its received spelling. It then has no dot segment, no
/// bare backslash and no separator that the rules decode: an upstream that normalizes it gets the normal form.
#[must_use]
pub fn keeps_spelling(path: &str, rules: PathRules) -> bool {
    check_made(path.as_bytes()).is_ok() && matches!(rules.apply(path), Ok(Cow::Borrowed(_)))
}

/// Returns true if the path certainly needs neither a change nor a rejection. Scans it once.
fn is_normalized(path: &[u8]) -> bool {
    if path.first() != Some(&b'/') {
        return false;
    }
    let mut at = 0;
    while let Some(&byte) = path.get(at) {
        match byte {
            _ if PLAIN[usize::from(byte)] => {}
            b'/' if starts_removable_segment(path.get(at + 1..).unwrap_or_default()) => return false,
            b'%' => match escape(path.get(at + 1..).unwrap_or_default()) {
                Some(escape) if escape.is_upper && is_ordinary(escape.byte) => at += 2,
                _ => return false,
            },
            b'\\' => return false,
            _ if check(byte).is_err() => return false,
            _ => {}
        }
        at += 1;
    }
    true
}

/// True for each byte that is valid unencoded, and has no meaning for the structure of a path.
static PLAIN: [bool; 256] = {
    let mut plain = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        plain[byte] = check(byte as u8).is_ok() && !matches!(byte as u8, b'/' | b'%' | b'\\');
        byte += 1;
    }
    plain
};

/// Returns true if the text after a `/` starts with another `/`, with parameters, or with a dot segment.
fn starts_removable_segment(rest: &[u8]) -> bool {
    let ends = |at: usize| matches!(rest.get(at), None | Some(b'/' | b';'));
    match rest {
        [b'/' | b';', ..] => true,
        [b'.', b'.', ..] => ends(2),
        [b'.', ..] => ends(1),
        _ => false,
    }
}

fn rewrite(path: &str) -> Result<String, PathError> {
    let segments = path.strip_prefix('/').ok_or(PathError::NotAbsolute)?;
    let mut out = String::with_capacity(path.len());
    let mut ends_in_slash = true;
    for segment in segments.split('/') {
        let start = out.len();
        out.push('/');
        decode_unreserved(segment, &mut out)?;
        let segment = out.get(start + 1..).unwrap_or_default();
        separators::check_segment(segment)?;
        let is_parent = segment == "..";
        ends_in_slash = matches!(segment, "" | "." | "..");
        if ends_in_slash {
            out.truncate(start);
        }
        if is_parent {
            out.truncate(out.rfind('/').ok_or(PathError::AboveRoot)?);
        }
    }
    if ends_in_slash {
        out.push('/');
    }
    Ok(out)
}

/// Appends one segment with normalized escapes.
fn decode_unreserved(segment: &str, out: &mut String) -> Result<(), PathError> {
    let bytes = segment.as_bytes();
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        if byte != b'%' {
            check(byte)?;
            match byte {
                // A backslash that the rules keep is always encoded.
                b'\\' => out.push_str("%5C"),
                _ => out.push(char::from(byte)),
            }
            at += 1;
            continue;
        }
        let escape = escape(bytes.get(at + 1..).unwrap_or_default()).ok_or(PathError::MalformedEscape)?;
        match escape.byte {
            0 => return Err(PathError::Control),
            byte if is_unreserved(byte) => out.push(char::from(byte)),
            _ => {
                let digits = bytes.get(at + 1..at + 3).unwrap_or_default();
                out.push('%');
                out.extend(digits.iter().map(|digit| char::from(digit.to_ascii_uppercase())));
            }
        }
        at += 3;
    }
    Ok(())
}

struct Escape {
    byte: u8,
    is_upper: bool,
}

/// Parses the two digits after a `%`.
fn escape(rest: &[u8]) -> Option<Escape> {
    let [high, low, ..] = rest else { return None };
    Some(Escape {
        byte: hex(*high)? << 4 | hex(*low)?,
        is_upper: !high.is_ascii_lowercase() && !low.is_ascii_lowercase(),
    })
}

/// Returns the value of one hexadecimal digit.
pub(crate) fn hex(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    }
}

/// Returns true for unreserved characters (RFC 3986, section 2.3).
pub(crate) fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

/// Returns true for a byte that stays encoded and is no separator to any upstream that decodes it.
fn is_ordinary(byte: u8) -> bool {
    !matches!(byte, 0 | b'\\' | b'/' | b';') && !is_unreserved(byte)
}

/// Returns an error for a byte that a path must not contain unencoded.
const fn check(byte: u8) -> Result<(), PathError> {
    match byte {
        0..=0x1F | 0x7F => Err(PathError::Control),
        0x80.. => Err(PathError::NotAscii),
        b' ' | b'"' | b'#' | b'<' | b'>' | b'?' | b'`' => Err(PathError::Forbidden),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
