//! Type-erased services of one thread.
//!
//! A route's layers are stacked at load time and the stack is as long as the YAML says. Behind a reference-counted
//! pointer a request costs no copy of it.

use std::cell::RefCell;
use std::convert::Infallible;
use std::future::{Future, ready};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use http::{Request, Response};
use tower::{Service, service_fn};

use crate::http::body::Body;

/// Future of a response. It cannot fail: every failure has become a response.
pub type ResponseFuture = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>>>>;

/// Response extension: the route has no upstream, and its filters make the response (`no:`).
#[derive(Clone, Copy, Debug)]
pub struct WithoutUpstream;

/// Type-erased service. All clones share one instance.
///
/// `tower::util::BoxCloneService` would copy all inner boxes on each clone, and a layer that waits for Redis clones
/// once per request.
#[derive(Clone)]
pub struct SharedService(Rc<dyn Fn(Request<Body>) -> ResponseFuture>);

impl SharedService {
    /// Shares `service`, which must always be ready: `poll_ready` is not called.
    pub fn new<S>(service: S) -> Self
    where
        S: Service<Request<Body>, Response = Response<Body>, Error = Infallible> + 'static,
        S::Future: 'static,
    {
        // The borrow lasts for `call` only, never while the response future is polled, so borrows do not overlap.
        let service = RefCell::new(service);
        Self(Rc::new(move |request| Box::pin(service.borrow_mut().call(request))))
    }

    /// Returns the innermost service of a route without an upstream (`no:`).
    pub fn empty() -> Self {
        Self::new(service_fn(|_: Request<Body>| {
            let mut response = Response::new(Body::default());
            response.extensions_mut().insert(WithoutUpstream);
            ready(Ok(response))
        }))
    }

    /// Calls the service with `request`.
    pub fn respond(&self, request: Request<Body>) -> ResponseFuture {
        (self.0)(request)
    }
}

impl Service<Request<Body>> for SharedService {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = ResponseFuture;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> ResponseFuture {
        self.respond(request)
    }
}

impl std::fmt::Debug for SharedService {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SharedService")
    }
}
