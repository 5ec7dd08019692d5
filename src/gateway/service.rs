//! A layer's boundary on one thread: services behind a shared pointer, so that a chain is built at load, is as long
//! as the YAML says, and costs a request no copy of it.

use std::cell::RefCell;
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use http::{Request, Response};
use tower::Service;

use crate::http::body::Body;

/// The answer to come. It cannot fail: whatever goes wrong has become a response by then.
pub type ResponseFuture = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>>>>;

/// A service of the chain with its type forgotten; a clone is a counted pointer.
///
/// `tower::util::BoxCloneService` copies every box below it when cloned, which a layer that waits for Redis does for
/// each request.
#[derive(Clone)]
pub struct Shared(Rc<dyn Erased>);

trait Erased {
    fn call(&self, request: Request<Body>) -> ResponseFuture;
}

/// Never borrowed while a request is polled, only while it is handed over, so it is never found borrowed.
struct Cellular<S>(RefCell<S>);

impl<S> Erased for Cellular<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
    S::Future: 'static,
{
    fn call(&self, request: Request<Body>) -> ResponseFuture {
        Box::pin(self.0.borrow_mut().call(request))
    }
}

impl Shared {
    /// Shares `service`, which must always be ready: all of ours are, down to the innermost, and so nobody asks.
    pub fn new<S>(service: S) -> Self
    where
        S: Service<Request<Body>, Response = Response<Body>, Error = Infallible> + 'static,
        S::Future: 'static,
    {
        Self(Rc::new(Cellular(RefCell::new(service))))
    }
}

impl Shared {
    /// The answer to `request`.
    pub fn respond(&self, request: Request<Body>) -> ResponseFuture {
        self.0.call(request)
    }
}

impl Service<Request<Body>> for Shared {
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

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Shared")
    }
}
