//! Requests of dry runs, and the conditions of rules that hold for one.

use std::net::{IpAddr, Ipv4Addr};

use http::header::HOST;
use http::request::Parts;
use http::{HeaderValue, Request};
use thiserror::Error;

use crate::explain::DryRunSettings;
use crate::explain::model::SkippedRule;
use tollgate_config::Route;
use tollgate_proxy::http::client_certificate::CertifiedClient;
use tollgate_proxy::upstream::balance::policy::hash;
use tollgate_routing::{RequestView, Undecided};

/// Request of a dry run.
#[derive(Debug)]
pub struct DryRunRequest {
    /// Head of the request, as the client sends it.
    pub head: Parts,
    /// Address of the peer.
    pub peer: IpAddr,
    /// Client by its certificate, over TLS.
    pub certificate: Option<CertifiedClient>,
    /// Number from 0 to 2^64 - 1 for `Weight` predicates; [`new`](Self::new) draws it from the request.
    pub chance: u64,
}

/// Error in the description of a request.
#[derive(Debug, Error)]
pub enum RequestError {
    /// A header field has no colon.
    #[error("invalid header field `{0}`: write `Name: value`")]
    Field(String),
    /// A part has a form that HTTP does not know.
    #[error("invalid request `{method} {url}`: {source}")]
    Request {
        /// Method.
        method: String,
        /// URL.
        url: String,
        /// Error.
        source: http::Error,
    },
}

impl DryRunRequest {
    /// Creates a request from 127.0.0.1. Adds `Host: localhost` if neither the URL nor the `fields` have a host.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub fn new(method: &str, url: &str, fields: &[String]) -> Result<Self, RequestError> {
        let mut request = Request::builder().method(method).uri(url);
        for field in fields {
            let (name, value) = field.split_once(':').ok_or_else(|| RequestError::Field(field.clone()))?;
            request = request.header(name.trim(), value.trim());
        }
        let invalid = |source| RequestError::Request { method: method.to_owned(), url: url.to_owned(), source };
        let mut head = request.body(()).map_err(invalid)?.into_parts().0;
        if !head.headers.contains_key(HOST) && head.uri.authority().is_none() {
            head.headers.insert(HOST, HeaderValue::from_static("localhost"));
        }
        Ok(Self { head, peer: IpAddr::V4(Ipv4Addr::LOCALHOST), certificate: None, chance: draw(method, url, fields) })
    }
}

/// Returns the draw of a request for `Weight` predicates: the same for the same request, so that two configurations can
/// be compared.
fn draw(method: &str, url: &str, fields: &[String]) -> u64 {
    let parts = [method, url].into_iter().chain(fields.iter().map(String::as_str));
    hash(&parts.flat_map(|part| part.bytes().chain([0])).collect::<Vec<u8>>())
}

/// Conditions of the rules of a route, decided for one request.
pub(super) struct DecidedConditions {
    /// A bit for each condition that holds.
    pub(super) bits: u64,
    /// The rules of each filter that do not apply.
    pub(super) skipped: Vec<Vec<SkippedRule>>,
}

impl DecidedConditions {
    /// Decides the conditions of `route` for `request`.
    pub(super) fn of(
        route: &Route,
        request: &RequestView<'_>,
        settings: DryRunSettings<'_>,
    ) -> Result<Self, Undecided> {
        let bits = route.conditions().decide(request)?;
        let mut limiters = route.rate_limiters();
        let skipped = route.filters.iter().map(|filter| {
            let naming = filter.as_rate_limiter().and_then(|_| limiters.next());
            let rules = naming.into_iter().flat_map(|naming| naming.all());
            let skipped = rules.filter_map(|rule| {
                let (predicate, seen) = rule.limit.when.as_ref()?.mismatch(request, settings.audience)?;
                let (predicate, plan) = (settings.secrets.mask(predicate), rule.plan.map(str::to_owned));
                Some(SkippedRule { rule: rule.label.to_string(), plan, predicate, seen })
            });
            skipped.collect()
        });
        Ok(Self { bits, skipped: skipped.collect() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_has_one_draw_and_requests_have_many() {
        let chance = |url: &str| DryRunRequest::new("GET", url, &[]).unwrap().chance;
        assert_eq!(chance("/a"), chance("/a"));
        let upper = (0..100).filter(|number| chance(&format!("/orders/{number}")) > u64::MAX / 2).count();
        assert!((30..70).contains(&upper), "{upper}");
    }
}
