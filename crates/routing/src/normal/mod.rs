//! The one normal form of a request path.
//!
//! Matching, limiting and forwarding all see this form, so a request cannot reach an upstream by a spelling that its
//! route, its limiter or its access rule did not see. The rules are those of RFC 3986, section 6.2.2 (escapes of
//! unreserved characters are decoded, the others have upper-case digits) and section 5.2.4 (dot segments), with runs of
//! `/` merged. What upstreams are known to read in different ways is refused: see [`PathProblem`].

use std::borrow::Cow;

use thiserror::Error;

/// A request path that no normal form is given for. Each one is the client's fault: answer 400.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum PathProblem {
    /// The path does not start with `/`.
    #[error("the path must start with `/`")]
    NotAbsolute,
    /// `%00`, or a control byte (0x00 to 0x1F, 0x7F) as it is.
    #[error("the path holds a NUL or a control byte")]
    Control,
    /// A `%` without two hexadecimal digits after it.
    #[error("the path holds a `%` that two hexadecimal digits do not follow")]
    MalformedEscape,
    /// `\` or `%5C`: a separator to some upstreams, a letter to others.
    #[error("the path holds a backslash")]
    Backslash,
    /// A segment such as `..;x`: a dot segment to some upstreams, a name to others.
    #[error("the path holds a dot segment with parameters (`..;`)")]
    DotSegmentParameters,
    /// More `..` than segments before it.
    #[error("the path climbs above its root")]
    AboveRoot,
    /// A byte above 0x7F that is not percent-encoded.
    #[error("the path holds bytes that are not ASCII: they must be percent-encoded")]
    NotAscii,
    /// A space or one of ``" # < > ? ` ``, which RFC 3986 has no place for in a path.
    #[error("the path holds a character that must be percent-encoded")]
    Forbidden,
}

// === impl normalize ===

/// Puts `path`, without its query, into normal form. Borrows, and allocates nothing, when it is in normal form already.
///
/// - `%61` becomes `a`, `%2e` becomes `.`, `%7E` becomes `~`; other escapes stay and get upper-case digits, `%2F` among
///   them: it does not split a segment.
/// - `//` becomes `/`, and only then `.` and `..` segments are removed: `/a//../b` is `/b`.
/// - `|`, `^`, `{`, `}`, `[` and `]`, which browsers send as they are, stay as they are.
///
/// The normal form of a normal form is itself.
///
/// # Errors
/// See [`PathProblem`].
pub fn normalize(path: &str) -> Result<Cow<'_, str>, PathProblem> {
    if is_normal(path.as_bytes()) { Ok(Cow::Borrowed(path)) } else { rewrite(path).map(Cow::Owned) }
}

/// One scan; `false` means that the path has to be rewritten or refused.
fn is_normal(path: &[u8]) -> bool {
    if path.first() != Some(&b'/') {
        return false;
    }
    let mut at = 0;
    while let Some(&byte) = path.get(at) {
        match byte {
            _ if PLAIN[usize::from(byte)] => {}
            b'/' if may_be_removed(path.get(at + 1..).unwrap_or_default()) => return false,
            b'%' => match escape(path.get(at + 1..).unwrap_or_default()) {
                Some(escape) if escape.is_upper && stays_encoded(escape.byte) => at += 2,
                _ => return false,
            },
            _ if check(byte).is_err() => return false,
            _ => {}
        }
        at += 1;
    }
    true
}

/// Bytes that are normal wherever they stand.
static PLAIN: [bool; 256] = {
    let mut plain = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        plain[byte] = check(byte as u8).is_ok() && byte as u8 != b'/' && byte as u8 != b'%';
        byte += 1;
    }
    plain
};

/// Whether what follows a `/` is another `/`, a dot segment, or one with parameters.
fn may_be_removed(rest: &[u8]) -> bool {
    let ends = |at: usize| matches!(rest.get(at), None | Some(b'/' | b';'));
    match rest {
        [b'/', ..] => true,
        [b'.', b'.', ..] => ends(2),
        [b'.', ..] => ends(1),
        _ => false,
    }
}

fn rewrite(path: &str) -> Result<String, PathProblem> {
    let segments = path.strip_prefix('/').ok_or(PathProblem::NotAbsolute)?;
    let mut out = String::with_capacity(path.len());
    let mut ends_in_slash = true;
    for segment in segments.split('/') {
        let start = out.len();
        out.push('/');
        decode_unreserved(segment, &mut out)?;
        let written = out.get(start + 1..).unwrap_or_default();
        let (name, parameters) = written.split_once(';').map_or((written, false), |(name, _)| (name, true));
        let is_dots = matches!(name, "." | "..");
        if is_dots && parameters {
            return Err(PathProblem::DotSegmentParameters);
        }
        let climbs = name == "..";
        ends_in_slash = is_dots || written.is_empty();
        if ends_in_slash {
            out.truncate(start);
        }
        if climbs {
            out.truncate(out.rfind('/').ok_or(PathProblem::AboveRoot)?);
        }
    }
    if ends_in_slash {
        out.push('/');
    }
    Ok(out)
}

/// Appends one segment with its escapes in normal form.
fn decode_unreserved(segment: &str, out: &mut String) -> Result<(), PathProblem> {
    let bytes = segment.as_bytes();
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        if byte != b'%' {
            check(byte)?;
            out.push(char::from(byte));
            at += 1;
            continue;
        }
        let escape = escape(bytes.get(at + 1..).unwrap_or_default()).ok_or(PathProblem::MalformedEscape)?;
        match escape.byte {
            0 => return Err(PathProblem::Control),
            b'\\' => return Err(PathProblem::Backslash),
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

/// The escape whose two digits `rest` starts with.
fn escape(rest: &[u8]) -> Option<Escape> {
    let [high, low, ..] = rest else { return None };
    Some(Escape {
        byte: hex(*high)? << 4 | hex(*low)?,
        is_upper: !high.is_ascii_lowercase() && !low.is_ascii_lowercase(),
    })
}

/// The value of one hexadecimal digit.
pub(super) fn hex(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    }
}

/// RFC 3986, section 2.3.
pub(super) fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

fn stays_encoded(byte: u8) -> bool {
    byte != 0 && byte != b'\\' && !is_unreserved(byte)
}

/// Refuses a byte that may not stand in a path unencoded.
const fn check(byte: u8) -> Result<(), PathProblem> {
    match byte {
        0..=0x1F | 0x7F => Err(PathProblem::Control),
        0x80.. => Err(PathProblem::NotAscii),
        b'\\' => Err(PathProblem::Backslash),
        b' ' | b'"' | b'#' | b'<' | b'>' | b'?' | b'`' => Err(PathProblem::Forbidden),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
