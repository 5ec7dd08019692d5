//! Mock services and mock stores.

use std::collections::HashMap;
use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use tollgate_filters::context::{LocalReply, RequestContext};
use tollgate_filters::key_resolver::{KeyBuf, KeyResolver};
use tollgate_limiter::store::{Check, Decision, Store};
use tollgate_limiter::verdict::{Outcome, Source, Verdict};
use tower::{Service, service_fn};

/// The body of mock responses.
pub(crate) type Body = Full<Bytes>;

/// Returns an inner service that responds with `response` and counts its calls.
pub(crate) fn upstream<B, F>(
    calls: &Arc<AtomicUsize>,
    response: F,
) -> impl Service<Request<B>, Response = Response<Body>, Error = Infallible> + Clone + use<B, F>
where
    F: Fn(&Request<B>) -> Response<Body> + Clone,
{
    let calls = Arc::clone(calls);
    service_fn(move |request: Request<B>| {
        calls.fetch_add(1, Ordering::SeqCst);
        std::future::ready(Ok(response(&request)))
    })
}

/// Returns an inner service that responds 200 and "hello".
pub(crate) fn hello(
    calls: &Arc<AtomicUsize>,
) -> impl Service<Request<()>, Response = Response<Body>, Error = Infallible> + Clone + use<> {
    upstream(calls, |_| Response::new(Full::from("hello")))
}

/// Store of buckets that never refill.
#[derive(Default)]
pub(crate) struct NoRefill {
    pub(crate) spent: Mutex<HashMap<(String, Vec<u8>), u64>>,
    /// Decides through a future.
    pub(crate) deferred: bool,
}

impl Store for NoRefill {
    fn decide(&self, checks: &[Check<'_>], _: &[Check<'_>]) -> Decision {
        let [Check { key, rule, cost }] = *checks else { panic!("expected one rule") };
        let mut spent = self.spent.lock().unwrap();
        let spent = spent.entry((key.scope.to_owned(), key.id.to_vec())).or_default();
        let left = rule.capacity() - *spent;
        let (outcome, remaining) = if cost > rule.capacity() {
            (Outcome::NeverAdmitted, left)
        } else if left >= cost {
            *spent += cost;
            (Outcome::Allowed, left - cost)
        } else {
            (Outcome::Denied { retry_after: Duration::from_millis(1_500) }, left)
        };
        let verdict = Verdict {
            outcome,
            remaining: Some(remaining),
            reset_after: Duration::from_secs(9),
            source: Source::Memory,
            ..Verdict::uncounted(outcome)
        };
        self.decision(verdict)
    }

    fn settle(&self, _: Check<'_>, _: i64, _: u64) {}
}

impl NoRefill {
    fn decision(&self, verdict: Verdict) -> Decision {
        if !self.deferred {
            return Decision::Ready(verdict);
        }
        Decision::Pending(Box::pin(async move {
            tokio::task::yield_now().await;
            verdict
        }))
    }
}

/// Store that always gives the same verdict.
pub(crate) struct Fixed(pub(crate) Verdict);

impl Store for Fixed {
    fn decide(&self, _: &[Check<'_>], _: &[Check<'_>]) -> Decision {
        Decision::Ready(self.0.clone())
    }

    fn settle(&self, _: Check<'_>, _: i64, _: u64) {}
}

/// Returns a request for `uri` with the URI template variables `variables`.
pub(crate) fn request_with(uri: &str, variables: &[(&str, &str)]) -> Request<()> {
    let variables = variables.iter().map(|(name, value)| (Arc::from(*name), (*value).to_owned())).collect();
    let mut request = Request::builder().uri(uri).body(()).unwrap();
    request.extensions_mut().insert(RequestContext { variables, ..RequestContext::default() });
    request
}

/// Returns the key id of `request`.
pub(crate) fn resolve(resolver: &KeyResolver, request: &Request<()>) -> Option<String> {
    let mut buf = KeyBuf::new();
    resolver.resolve(request, &mut buf).map(|id| String::from_utf8(id.to_vec()).unwrap())
}

/// Returns a request of the client at `ip`.
pub(crate) fn from_ip(ip: &str) -> Request<()> {
    let mut request = Request::new(());
    let client_ip = Some(ip.parse::<IpAddr>().unwrap());
    request.extensions_mut().insert(RequestContext { client_ip, ..RequestContext::default() });
    request
}

/// Returns the whole body as text.
pub(crate) async fn text<B: http_body::Body<Error: std::fmt::Debug>>(response: Response<B>) -> String {
    String::from_utf8(response.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap()
}

/// Returns the reason of a response that a filter made.
pub(crate) fn reason<B>(response: &Response<B>) -> Option<&'static str> {
    response.extensions().get::<LocalReply>().map(|reply| reply.reason)
}

/// Returns all values of the header `name`.
pub(crate) fn values<'a, B>(response: &'a Response<B>, name: &str) -> Vec<&'a str> {
    response.headers().get_all(name).iter().map(|value| value.to_str().unwrap()).collect()
}
