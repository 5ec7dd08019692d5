//! `Proxy-Status` (RFC 9209) of responses that the gateway makes itself, so that clients tell them from those of upstreams.

use std::fmt::Write as _;
use std::sync::Arc;

use http::header::STRICT_TRANSPORT_SECURITY;
use http::{HeaderName, HeaderValue, Response, StatusCode};

use crate::http::body::Body;
use tollgate_config::Server;
use tollgate_filters::context::{LocalReply, ReceivedStatus};
use tollgate_filters::fault::Fault;
use tollgate_filters::refusal::Refusal;

const PROXY_STATUS: HeaderName = HeaderName::from_static("proxy-status");

/// Adds the field to `response`, if the gateway made it for an error. `name` is that of the gateway.
pub(super) fn add<B>(name: &str, response: &mut Response<B>) {
    let Some(error) = error(response) else { return };
    let mut value = format!("{name}; error={error}");
    let extensions = response.extensions();
    if let Some(ReceivedStatus(received)) = extensions.get() {
        let _ = write!(value, "; received-status={}", received.as_u16());
    }
    let rule = extensions.get::<Refusal>().and_then(|refusal| refusal.rule.as_deref());
    let details = match (rule, extensions.get::<LocalReply>()) {
        (Some(rule), _) => format!("rule {rule}"),
        (None, Some(reply)) => reply.reason.to_owned(),
        (None, None) => String::new(),
    };
    // Strings of structured fields have ASCII only (RFC 9651 §3.3.3).
    if !details.is_empty() && details.bytes().all(|byte| (0x20..0x7f).contains(&byte)) {
        let _ = write!(value, "; details=\"{}\"", details.replace('\\', "\\\\").replace('"', "\\\""));
    }
    if let Ok(value) = HeaderValue::try_from(value) {
        response.headers_mut().append(PROXY_STATUS, value);
    }
}

/// Returns the type of the error (RFC 9209 §2.3); `None` for responses of upstreams, and for those without an error.
fn error<B>(response: &Response<B>) -> Option<&'static str> {
    let (extensions, status) = (response.extensions(), response.status());
    let reason = extensions.get::<LocalReply>().map(|reply| reply.reason);
    if extensions.get::<Refusal>().is_some_and(|refusal| refusal.is_denial) {
        return Some("http_request_denied");
    }
    if reason.is_none() && extensions.get::<Refusal>().is_none() {
        return None;
    }
    if let Some(fault) = extensions.get::<Fault>() {
        return Some(fault_type(*fault));
    }
    Some(match reason.unwrap_or_default() {
        "no-route" => "destination_not_found",
        "no-endpoint" | "circuit-open" => "destination_unavailable",
        "upstream-busy" => "connection_limit_reached",
        "upstream-unreachable" => "connection_refused",
        "connect-timeout" => "connection_timeout",
        "response-timeout" | "time-limit" => "http_response_timeout",
        "upstream-broken" => "http_response_incomplete",
        "forward-loop" => "proxy_loop_detected",
        "rate-limited" | "concurrency-limited" | "blocked" | "empty-key" | "ambiguous-key" | "cors-refused" => {
            "http_request_denied"
        }
        _ if status == StatusCode::FORBIDDEN => "http_request_denied",
        _ if status.is_client_error() => "http_request_error",
        _ if status.is_server_error() => "proxy_internal_error",
        _ => return None,
    })
}

fn fault_type(fault: Fault) -> &'static str {
    match fault {
        Fault::NoEndpoint | Fault::CircuitOpen => "destination_unavailable",
        Fault::NameNotResolved => "dns_error",
        Fault::Unreachable => "connection_refused",
        Fault::ConnectTimeout => "connection_timeout",
        Fault::Tls => "tls_protocol_error",
        Fault::ConnectionClosed => "http_response_incomplete",
        Fault::Malformed => "http_protocol_error",
        Fault::ResponseTimeout | Fault::TimeLimit => "http_response_timeout",
        _ => "proxy_internal_error",
    }
}

/// Fields that the gateway adds to responses.
#[derive(Debug)]
pub(super) struct OwnFields {
    /// Name of the gateway in `Proxy-Status`; `None` without that field.
    pub(super) proxy_status: Option<Box<str>>,
    /// `Strict-Transport-Security`; `None` without that field.
    hsts: Option<HeaderValue>,
}

// === impl OwnFields ===

impl OwnFields {
    /// Returns the fields of a configuration; `None` for none.
    pub(super) fn of(server: &Server) -> Option<Arc<Self>> {
        let (proxy_status, hsts) = (server.proxy_status().map(Box::from), server.hsts.clone());
        (proxy_status.is_some() || hsts.is_some()).then(|| Arc::new(Self { proxy_status, hsts }))
    }

    /// Adds the fields to the response to a request. A client that does not use TLS learns nothing of it (RFC 6797 §7.2).
    pub(super) fn add(&self, uses_tls: bool, response: &mut Response<Body>) {
        if let Some(name) = &self.proxy_status {
            add(name, response);
        }
        if let Some(hsts) = self.hsts.as_ref().filter(|_| uses_tls)
            && !response.headers().contains_key(STRICT_TRANSPORT_SECURITY)
        {
            // A full map (32,768 headers) does not get it.
            let _ = response.headers_mut().try_insert(STRICT_TRANSPORT_SECURITY, hsts.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(status: u16, reason: Option<&'static str>, fault: Option<Fault>) -> Option<String> {
        let mut response = Response::builder().status(status).body(()).unwrap();
        if let Some(reason) = reason {
            response.extensions_mut().insert(LocalReply { reason });
        }
        if let Some(fault) = fault {
            response.extensions_mut().insert(fault);
        }
        add("edge-1", &mut response);
        response.headers().get("proxy-status").map(|value| value.to_str().unwrap().to_owned())
    }

    #[test]
    fn only_errors_of_the_gateway_have_the_field() {
        assert_eq!(field(502, None, None), None, "of an upstream");
        assert_eq!(field(302, Some("redirect"), None), None);
        let expected = "edge-1; error=destination_not_found; details=\"no-route\"";
        assert_eq!(field(404, Some("no-route"), None).as_deref(), Some(expected));
        let dns = field(502, Some("upstream-unreachable"), Some(Fault::NameNotResolved)).unwrap();
        assert!(dns.starts_with("edge-1; error=dns_error;"), "{dns}");
        let bad = field(400, Some("bad-request"), None).unwrap();
        assert!(bad.starts_with("edge-1; error=http_request_error;"), "{bad}");
    }

    #[test]
    fn a_denial_names_its_rule() {
        let mut response = Response::builder().status(429).body(()).unwrap();
        let refusal = Refusal {
            status: StatusCode::TOO_MANY_REQUESTS,
            reason: "rate-limited",
            format: Default::default(),
            is_denial: true,
            retry: None,
            rule: Some("a\"b".into()),
        };
        response.extensions_mut().insert(refusal);
        add("edge", &mut response);
        assert_eq!(response.headers()["proxy-status"], "edge; error=http_request_denied; details=\"rule a\\\"b\"");
    }
}
