//! Adding a policy's headers to upstream responses.

use std::sync::Arc;

use http::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, HeaderMap, HeaderName,
};
use http::{Request, Response};

use super::policy::ALLOW_PRIVATE_NETWORK;
use crate::response_filter::{OnResponse, ResponseFilter, ResponseFilterLayer, ResponseMapper};

/// Response headers of a CORS policy.
static POLICY_HEADERS: [HeaderName; 7] = [
    ACCESS_CONTROL_ALLOW_CREDENTIALS,
    ACCESS_CONTROL_ALLOW_HEADERS,
    ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS,
    ACCESS_CONTROL_MAX_AGE,
    ALLOW_PRIVATE_NETWORK,
];

/// Headers for the response to an allowed request. [`Cors`](super::Cors) inserts them into the request's extensions.
#[derive(Clone, Debug)]
pub(super) struct AllowedHeaders(pub(super) Arc<HeaderMap>);

/// Response extension that marks a response with a policy's headers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PolicyHeadersAdded;

/// Treatment of an upstream's own headers of these names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpstreamHeaders {
    /// They follow those of the policy, as in Spring. Browsers refuse a response with two origins.
    Keep,
    /// The policy's replace them.
    Replace,
}

/// Adds the headers of the policy that allowed a request to the upstream's response.
pub type PolicyHeadersLayer = ResponseFilterLayer<UpstreamHeaders>;

/// Adds the policy's headers.
#[derive(Debug)]
pub struct AddPolicyHeaders(AllowedHeaders, UpstreamHeaders);

impl PolicyHeadersLayer {
    /// Creates a layer that treats the upstream's own headers as `upstream_headers` says.
    #[must_use]
    pub fn new(upstream_headers: UpstreamHeaders) -> Self {
        Self(OnResponse(upstream_headers))
    }
}

impl ResponseFilter for UpstreamHeaders {
    type Mapper = AddPolicyHeaders;

    fn mapper<B>(&self, request: &mut Request<B>) -> Option<AddPolicyHeaders> {
        request.extensions().get::<AllowedHeaders>().map(|headers| AddPolicyHeaders(headers.clone(), *self))
    }
}

impl ResponseMapper for AddPolicyHeaders {
    fn apply<R>(self, response: &mut Response<R>) {
        let Self(AllowedHeaders(headers), upstream_headers) = self;
        if upstream_headers == UpstreamHeaders::Replace {
            POLICY_HEADERS.iter().for_each(|name| drop(response.headers_mut().remove(name)));
        }
        prepend(&headers, response.headers_mut());
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
