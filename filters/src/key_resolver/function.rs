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

/// Function that writes a key id. Returns `None` if the request has none.
#[derive(Clone)]
pub(super) struct KeyFn(Arc<WriteKey>);

type WriteKey = dyn Fn(RequestHead<'_>, &mut KeyBuf) -> Option<()> + Send + Sync;

/// Function that returns the client's address.
#[derive(Clone)]
pub(super) struct AddressFn(Arc<ReadAddress>);

type ReadAddress = dyn Fn(&Extensions) -> Option<IpAddr> + Send + Sync;

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

// === impl KeyFn ===

impl KeyFn {
    pub(super) fn new<F, K>(function: F) -> Self
    where
        F: Fn(RequestHead<'_>) -> Option<K> + Send + Sync + 'static,
        K: AsRef<[u8]>,
    {
        Self(Arc::new(move |head, out| {
            out.push(function(head)?.as_ref());
            Some(())
        }))
    }

    pub(super) fn write(&self, head: RequestHead<'_>, out: &mut KeyBuf) -> Option<()> {
        (self.0)(head, out)
    }
}

impl PartialEq for KeyFn {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for KeyFn {}

impl fmt::Debug for KeyFn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyFn")
    }
}

// === impl AddressFn ===

impl AddressFn {
    pub(super) fn new<T, F>(function: F) -> Self
    where
        T: Send + Sync + 'static,
        F: Fn(&T) -> IpAddr + Send + Sync + 'static,
    {
        Self(Arc::new(move |extensions| extensions.get::<T>().map(&function)))
    }

    pub(super) fn address(&self, extensions: &Extensions) -> Option<IpAddr> {
        (self.0)(extensions)
    }
}

impl PartialEq for AddressFn {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for AddressFn {}

impl fmt::Debug for AddressFn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AddressFn")
    }
}
