//! `request-id:`: one id per request, for the logs of clients, gateways and upstreams.

use http::HeaderName;
use serde::Deserialize;

use crate::de::spanned::Spanned;
use crate::diagnostics::Diagnostics;
use crate::model::{AccessLog, AccessLogFormat, LogOutput};
#[cfg(test)]
use crate::sections::scalars::Scalar;
use crate::spec::values::header_name;

/// Request ids: forwarded to upstreams, sent back to clients, and logged.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawRequestId {
    /// Gives each request an id. Default: true if the access log is written as `json`, which contains the id, else false.
    enabled: Option<bool>,
    /// Header field of the id. An id that one of `trusted-proxies` sent is kept if it has 1 to 128 visible ASCII characters. Default `X-Request-Id`.
    #[cfg_attr(test, schemars(with = "Option<Scalar>"))]
    header: Option<Spanned<String>>,
}

/// Request ids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestId {
    /// Header field of the id; `None` if requests have none.
    pub header: Option<HeaderName>,
}

/// Checks `request-id:`.
pub(crate) fn check(raw: &RawRequestId, access_log: &AccessLog, diagnostics: &mut Diagnostics) -> RequestId {
    let named = raw.header.as_ref();
    let header = named.and_then(|header| {
        let name = header_name(&header.value, header.span, diagnostics)?;
        if FRAMING.contains(&name.as_str()) {
            diagnostics.error(header.span, format!("`{name}` has a meaning of its own and cannot hold the request id"));
            return None;
        }
        Some(name)
    });
    let is_logged = access_log.format == AccessLogFormat::Json && access_log.output != LogOutput::Off;
    let header = header.unwrap_or(HeaderName::from_static("x-request-id"));
    RequestId { header: raw.enabled.unwrap_or(is_logged).then_some(header) }
}

/// Fields that framing, routing and authentication depend on.
const FRAMING: [&str; 10] = [
    "host",
    "connection",
    "content-length",
    "content-type",
    "transfer-encoding",
    "te",
    "upgrade",
    "authorization",
    "cookie",
    "set-cookie",
];

#[cfg(test)]
mod tests {
    use crate::load::parse;

    fn header(yaml: &str) -> Option<String> {
        let text = format!("{yaml}\nroutes: [{{id: a, uri: 'echo:', predicates: [Path=/**]}}]\n");
        let loaded = parse("a.yaml", &text, &|_| None).ok()?;
        loaded.config.request_id.header.map(|name| name.to_string())
    }

    #[test]
    fn requests_have_ids_if_they_are_logged_or_asked_for() {
        let json = "access-log: {format: json}\n";
        assert_eq!(header(""), None);
        assert_eq!(header(json).as_deref(), Some("x-request-id"));
        assert_eq!(header("access-log: {format: json, output: off}"), None);
        assert_eq!(header(&format!("{json}request-id: {{enabled: false}}")), None);
        assert_eq!(
            header("request-id: {enabled: true, header: X-Correlation-ID}").as_deref(),
            Some("x-correlation-id")
        );
        for invalid in ["'a b'", "''", "Content-Length", "host"] {
            assert_eq!(header(&format!("request-id: {{enabled: true, header: {invalid}}}")), None, "{invalid}");
        }
    }
}
