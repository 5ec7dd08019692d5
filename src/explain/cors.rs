//! Verdict of the CORS policy on a request.

use std::sync::Arc;

use http::header::{ORIGIN, VARY};
use http::request::Parts;
use http::{HeaderMap, Request};
use tollgate_filters::cors::{Policy, Refusal, Verdict};

use crate::explain::by_name;
use crate::explain::model::{CorsJudgement, CorsVerdict, LocalResponse};
use tollgate_routing::{Predicate, RequestView};

/// Returns the verdict of the first of `policies` whose path matches, on a request that the client sent with `scheme`; `None`
/// without an `Origin` field.
pub(super) fn judge(
    policies: &[(Predicate, Arc<Policy>)],
    head: &Parts,
    view: &RequestView<'_>,
    scheme: &str,
) -> Option<CorsJudgement> {
    if !head.headers.contains_key(ORIGIN) {
        return None;
    }
    let Some((path, policy)) = policies.iter().find(|(path, _)| path.matches(view)) else {
        return Some(CorsJudgement {
            policy: None,
            verdict: CorsVerdict::NoPolicy,
            headers: by_name(&HeaderMap::new()),
        });
    };
    let request = Request::from_parts(head.clone(), ());
    let (verdict, headers) = match policy.evaluate(&request, scheme) {
        Verdict::Allowed(headers) => (CorsVerdict::Allowed, (*headers).clone()),
        Verdict::Preflight(headers) => (CorsVerdict::Preflight, headers),
        Verdict::Denied(refusal, headers) => {
            let verdict = match refusal {
                Refusal::Origin => CorsVerdict::RefusedOrigin,
                Refusal::Method => CorsVerdict::RefusedMethod,
                Refusal::Headers => CorsVerdict::RefusedHeaders,
            };
            (verdict, (*headers).clone())
        }
    };
    let mut headers = by_name(&headers);
    headers.remove(VARY.as_str());
    Some(CorsJudgement { policy: Some(patterns(path)), verdict, headers })
}

/// Returns the path patterns of a policy.
fn patterns(path: &Predicate) -> String {
    let patterns: Vec<_> = path.path_patterns().into_iter().flatten().map(ToString::to_string).collect();
    patterns.join(", ")
}

impl CorsVerdict {
    /// Returns the response with which the policy ends the request, before any filter.
    pub(super) fn response(self) -> Option<LocalResponse> {
        let (status, reason) = match self {
            Self::NoPolicy | Self::Allowed => return None,
            Self::Preflight => (200, "cors-preflight"),
            Self::RefusedOrigin | Self::RefusedMethod | Self::RefusedHeaders => (403, "cors-refused"),
        };
        Some(LocalResponse { status, reason: reason.to_owned() })
    }

    /// Returns the verdict in words.
    pub(super) fn as_text(self) -> &'static str {
        match self {
            Self::NoPolicy => "no policy for this path: browsers deny the response to scripts of other origins",
            Self::Allowed => "allowed",
            Self::Preflight => "preflight, answered before the filters",
            Self::RefusedOrigin => "refused: the origin is not allowed",
            Self::RefusedMethod => "refused: the method is not allowed",
            Self::RefusedHeaders => "refused: none of the requested header fields is allowed",
        }
    }
}
