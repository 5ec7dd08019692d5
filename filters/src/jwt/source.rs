//! Where in a request its token stands.

use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderName};

use crate::key_resolver::cookie;

/// Where a request carries its token.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum TokenSource {
    /// `Authorization: Bearer …` (RFC 6750 §2.1).
    #[default]
    Bearer,
    /// The value of this header; `Bearer ` before it is taken off.
    Header(HeaderName),
    /// The first cookie of this name.
    Cookie(String),
}

impl TokenSource {
    /// The token. A field that is there twice has none: whoever reads the other one would see another user.
    pub(super) fn token<'h>(&self, headers: &'h HeaderMap) -> Option<&'h [u8]> {
        match self {
            Self::Bearer => bearer(only(headers, &AUTHORIZATION)?),
            Self::Header(name) => {
                let value = only(headers, name)?;
                Some(bearer(value).unwrap_or(value))
            }
            Self::Cookie(name) => cookie(headers, name),
        }
    }
}

fn only<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h [u8]> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?;
    values.next().is_none().then(|| value.as_bytes())
}

/// What follows the scheme, which is spelled in any case (RFC 9110 §11.1).
fn bearer(value: &[u8]) -> Option<&[u8]> {
    let (scheme, rest) = value.split_at_checked(6)?;
    let token = rest.strip_prefix(b" ")?;
    scheme.eq_ignore_ascii_case(b"bearer").then(|| token.trim_ascii())
}
