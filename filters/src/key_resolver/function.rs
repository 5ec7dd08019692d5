//! Functions of the user that resolve keys.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use http::{Extensions, HeaderMap, Method, Request, Uri};

use super::buffer::KeyBuf;

/// Request without its body, borrowed.
#[derive(Clone, Copy, Debug)]
pub struct RequestHead<'a> {
    /// The method.
    pub method: &'a Method,
    /// The request target.
    pub uri: &'a Uri,
    /// The header fields.
    pub headers: &'a HeaderMap,
    /// The extensions, such as axum's `ConnectInfo`.
    pub extensions: &'a Extensions,
}

/// Function of a program that uses this library. Two are equal if they are the same object.
pub(super) struct UserFn<F: ?Sized>(pub(super) Arc<F>);

/// Function that writes a key id. Returns `None` if the request has none.
pub(super) type KeyFn = UserFn<dyn Fn(RequestHead<'_>, &mut KeyBuf) -> Option<()> + Send + Sync>;

/// Function that returns the client's address.
pub(super) type AddressFn = UserFn<dyn Fn(&Extensions) -> Option<IpAddr> + Send + Sync>;

// === impl RequestHead ===

impl<'a> RequestHead<'a> {
    pub(super) fn of<B>(request: &'a Request<B>) -> Self {
        Self {
            method: request.method(),
            uri: request.uri(),
            headers: request.headers(),
            extensions: request.extensions(),
        }
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
