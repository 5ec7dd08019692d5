//! Adding a policy's headers to upstream responses.

use std::sync::Arc;
use std::task::{Context, Poll};

use http::header::HeaderMap;
use http::{Request, Response};
use tower::{Layer, Service};

use crate::map_response::{MapResponse, ResponseMapper};

/// Headers for the response to an allowed request. [`Cors`](super::Cors) inserts them into the request's extensions.
#[derive(Clone, Debug)]
pub struct AllowedHeaders(pub(super) Arc<HeaderMap>);

/// Response extension that marks a response with a policy's headers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PolicyHeadersAdded;

/// Wraps services in [`PolicyHeaders`].
#[derive(Clone, Copy, Debug, Default)]
pub struct PolicyHeadersLayer;

/// Puts the headers of the policy that allowed a request before those of the upstream's response.
#[derive(Clone, Debug)]
pub struct PolicyHeaders<S> {
    inner: S,
}

/// Resolves to the inner service's response with the policy's headers.
pub type PolicyHeadersFuture<F> = MapResponse<F, AllowedHeaders>;

impl<S> Layer<S> for PolicyHeadersLayer {
    type Service = PolicyHeaders<S>;

    fn layer(&self, inner: S) -> Self::Service {
        PolicyHeaders { inner }
    }
}

impl<S, B, R> Service<Request<B>> for PolicyHeaders<S>
where
    S: Service<Request<B>, Response = Response<R>>,
{
    type Response = Response<R>;
    type Error = S::Error;
    type Future = PolicyHeadersFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let headers = request.extensions().get::<AllowedHeaders>().cloned();
        MapResponse::new(self.inner.call(request), headers)
    }
}

impl ResponseMapper for AllowedHeaders {
    fn apply<R>(self, response: &mut Response<R>) {
        prepend(&self.0, response.headers_mut());
        response.extensions_mut().insert(PolicyHeadersAdded);
    }
}

/// Puts `policy_headers` before the values of the same names in `headers`. Values of `Vary` are not repeated.
pub(super) fn prepend(policy_headers: &HeaderMap, headers: &mut HeaderMap) {
    for name in policy_headers.keys() {
        let existing: Vec<_> = headers.get_all(name).iter().cloned().collect();
        headers.remove(name);
        for value in policy_headers.get_all(name) {
            let _ = headers.try_append(name, value.clone());
        }
        for value in existing {
            let is_repeated =
                name == http::header::VARY && policy_headers.get_all(name).iter().any(|one| *one == value);
            if !is_repeated {
                let _ = headers.try_append(name, value);
            }
        }
    }
}
