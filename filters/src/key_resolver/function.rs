//! Functions of the user that resolve keys.

use std::borrow::Cow;
use std::cell::Cell;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use http::header::AsHeaderName;
use http::{Extensions, HeaderMap, HeaderValue, Method, Request, Uri};

use super::buffer::KeyBuf;
use super::credentials;
use crate::repeated::Repeated;

/// Request without its body, borrowed.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct RequestHead<'a> {
    /// The method.
    pub method: &'a Method,
    /// The request target.
    pub uri: &'a Uri,
    /// The header fields.
    pub headers: Fields<'a>,
    /// The extensions, such as axum's `ConnectInfo`.
    pub extensions: &'a Extensions,
}

/// Header fields of a request.
///
/// A field that occurs twice with different values has no value, and the request is
/// [ambiguous](super::KeyResolver::is_ambiguous): an upstream may read the other value.
#[derive(Clone, Copy, Debug)]
pub struct Fields<'a> {
    map: &'a HeaderMap,
    /// Set once a field was read that has several values.
    differs: &'a Cell<bool>,
}

/// Key of a request: text or bytes, borrowed from the request or owned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key<'a>(Cow<'a, [u8]>);

/// Function of a program that uses this library. Two are equal if they are the same object.
pub(super) struct UserFn<F: ?Sized>(pub(super) Arc<F>);

/// Function that returns a key. Returns `None` if the request has none.
pub(super) type KeyFn = UserFn<dyn Fn(RequestHead<'_>) -> Option<Key<'_>> + Send + Sync>;

/// Function that returns the client's address.
pub(super) type AddressFn = UserFn<dyn Fn(&Extensions, &HeaderMap) -> Option<IpAddr> + Send + Sync>;

// === impl Fields ===

impl<'a> Fields<'a> {
    /// Returns the value of the field `name`; `None` if there is none, or several different ones. As with `header:NAME`, credentials in
    /// `Authorization` have the scheme as in `Bearer` and one space behind it: another spelling is no other key.
    pub fn get(&self, name: impl AsHeaderName + AsRef<str>) -> Option<Key<'a>> {
        let holds_credentials = credentials::are_in(name.as_ref());
        let values = self.map.get_all(name).iter().map(HeaderValue::as_bytes);
        let value = Repeated::of(values, |one, other| one == other);
        if value == Repeated::Differing {
            self.differs.set(true);
        }
        value.one().map(|value| if holds_credentials { Key(credentials::normal_id(value)) } else { value.into() })
    }

    /// Returns all fields. Reading them does not make a request ambiguous.
    #[must_use]
    pub fn as_map(&self) -> &'a HeaderMap {
        self.map
    }
}

// === impl Key ===

impl Key<'_> {
    /// Returns the bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns the text; `None` for bytes that are not UTF-8.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        std::str::from_utf8(&self.0).ok()
    }
}

impl<'a> From<&'a [u8]> for Key<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Self(Cow::Borrowed(bytes))
    }
}

impl<'a> From<&'a str> for Key<'a> {
    fn from(text: &'a str) -> Self {
        text.as_bytes().into()
    }
}

impl From<Vec<u8>> for Key<'_> {
    fn from(bytes: Vec<u8>) -> Self {
        Self(Cow::Owned(bytes))
    }
}

impl From<String> for Key<'_> {
    fn from(text: String) -> Self {
        text.into_bytes().into()
    }
}

impl<'a> From<Cow<'a, str>> for Key<'a> {
    fn from(text: Cow<'a, str>) -> Self {
        match text {
            Cow::Borrowed(text) => text.into(),
            Cow::Owned(text) => text.into(),
        }
    }
}

// === impl KeyFn ===

impl KeyFn {
    /// Calls `with` with the key of `request`. Returns true if the function has read a field with different values.
    fn call<B>(&self, request: &Request<B>, with: impl FnOnce(Option<Key<'_>>)) -> bool {
        let differs = Cell::new(false);
        let head = RequestHead {
            method: request.method(),
            uri: request.uri(),
            headers: Fields { map: request.headers(), differs: &differs },
            extensions: request.extensions(),
        };
        with((self.0)(head));
        differs.get()
    }

    /// Writes the key of `request`; `None` if it has none.
    pub(super) fn write_key<B>(&self, request: &Request<B>, out: &mut KeyBuf) -> Option<()> {
        let differs = self.call(request, |key| key.iter().for_each(|key| out.push(key.as_bytes())));
        (!differs).then_some(())
    }

    /// Returns true if the function reads a field that has different values.
    pub(super) fn is_ambiguous<B>(&self, request: &Request<B>) -> bool {
        self.call(request, |_| {})
    }
}

// === impl UserFn ===

impl<F: ?Sized> Clone for UserFn<F> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<F: ?Sized> PartialEq for UserFn<F> {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl<F: ?Sized> Eq for UserFn<F> {}

impl<F: ?Sized> fmt::Debug for UserFn<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("UserFn")
    }
}
