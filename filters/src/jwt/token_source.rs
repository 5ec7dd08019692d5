//! Location of the token in a request.

use http::header::{AUTHORIZATION, COOKIE};
use http::{HeaderMap, HeaderName};

use crate::cookie;
use crate::repeated::Repeated;

static AUTHORIZATION_FIELD: HeaderName = AUTHORIZATION;
static COOKIE_FIELD: HeaderName = COOKIE;

/// Location of the token in a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum TokenSource {
    /// `Authorization: Bearer …` (RFC 6750 §2.1).
    #[default]
    Bearer,
    /// The value of this header, without a leading `Bearer `.
    Header(HeaderName),
    /// The cookie of this name.
    Cookie(String),
}

impl TokenSource {
    /// Returns the name of the field that holds the token.
    #[must_use]
    pub fn header(&self) -> &HeaderName {
        match self {
            Self::Bearer => &AUTHORIZATION_FIELD,
            Self::Header(name) => name,
            Self::Cookie(_) => &COOKIE_FIELD,
        }
    }

    /// Returns the token. A repeated field has none: an upstream that reads the other value would see another user.
    pub(super) fn token<'h>(&self, headers: &'h HeaderMap) -> Option<&'h [u8]> {
        match self {
            Self::Bearer => bearer(single_value(headers, &AUTHORIZATION)?),
            Self::Header(name) => {
                let value = single_value(headers, name)?;
                Some(bearer(value).unwrap_or(value))
            }
            Self::Cookie(name) => cookie::value(headers, name).one(),
        }
    }

    /// Returns true if the request has several tokens, of which none counts.
    pub(crate) fn is_repeated(&self, headers: &HeaderMap) -> bool {
        match self {
            Self::Bearer | Self::Header(_) => headers.get_all(self.header()).iter().nth(1).is_some(),
            Self::Cookie(name) => cookie::value(headers, name) == Repeated::Differing,
        }
    }
}

fn single_value<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h [u8]> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?;
    values.next().is_none().then(|| value.as_bytes())
}

/// Returns the token after the scheme `Bearer`, which is case-insensitive (RFC 9110 §11.1).
fn bearer(value: &[u8]) -> Option<&[u8]> {
    let (scheme, rest) = value.split_at_checked(6)?;
    let token = rest.strip_prefix(b" ")?;
    scheme.eq_ignore_ascii_case(b"bearer").then(|| token.trim_ascii())
}
