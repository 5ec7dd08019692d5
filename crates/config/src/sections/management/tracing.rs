//! `management.tracing`, `management.otlp` and `management.opentelemetry`: traces and their collector.

#[cfg(test)]
use std::collections::BTreeMap;
use std::time::Duration;

use http::{HeaderName, HeaderValue, Uri};
use serde::Deserialize;

use crate::de::{Flag, Metadata, Number, OptionalText, Or, PositiveTime, Ranged, Spanned, secs};
use crate::diagnostics::Diagnostics;
use crate::sections::add_server;
use crate::sections::management::keys::RawManagement;

/// Share of sampled traces without `sampling.probability`, as in Spring Boot.
const DEFAULT_PROBABILITY: f64 = 0.1;

/// Traces of requests.
#[section]
pub(crate) struct RawTracing {
    /// Enables traces. Default {}; without `management.otlp.tracing.endpoint` there are none.
    pub(crate) enabled: Flag<true>,
    /// Sampling of traces that start here. The decision of a client's `traceparent` holds.
    pub(crate) sampling: RawSampling,
    /// Formats of trace contexts in header fields.
    pub(crate) propagation: Spanned<RawPropagation>,
}

/// Formats of trace contexts in header fields.
#[section]
pub(crate) struct RawPropagation {
    /// Formats that are read and written: `W3C` (`traceparent`), `B3` (`b3`) and `B3_MULTI` (`X-B3-TraceId` and others). Default `W3C`; it wins over the next two.
    #[serde(rename = "type")]
    pub(crate) both: Vec<TraceFormat>,
    /// Formats that are read, the first one with a valid context. Default `W3C`.
    pub(crate) consume: Vec<TraceFormat>,
    /// Formats that upstreams get. Default `W3C`.
    pub(crate) produce: Vec<TraceFormat>,
}

/// Format of a trace context in header fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub enum TraceFormat {
    /// Field `traceparent` (W3C Trace Context).
    #[serde(rename = "W3C")]
    W3c,
    /// Field `b3` (Zipkin).
    #[serde(rename = "B3")]
    B3,
    /// Fields `X-B3-TraceId`, `X-B3-SpanId` and `X-B3-Sampled` (Zipkin).
    #[serde(rename = "B3_MULTI")]
    B3Multi,
}

impl RawPropagation {
    /// Returns `given`, unless `type` names the formats.
    fn formats(&self, given: &[TraceFormat]) -> Vec<TraceFormat> {
        let formats = [&self.both, given, &[TraceFormat::W3c]].into_iter().find(|formats| !formats.is_empty());
        formats.map(<[TraceFormat]>::to_vec).unwrap_or_default()
    }
}

/// Sampling of traces that start here.
#[section]
pub(crate) struct RawSampling {
    /// Share of sampled traces. Default 0.1.
    pub(crate) probability: Option<Ranged<Number, 0, 1>>,
}

/// Export over OTLP.
#[section]
pub(crate) struct RawOtlp {
    /// Collector of traces.
    pub(crate) tracing: RawOtlpTracing,
}

/// Collector of traces, over HTTP with protobuf.
#[section]
pub(crate) struct RawOtlpTracing {
    /// URL of the collector, such as `http://localhost:4318/v1/traces`. Default: none, and no traces.
    pub(crate) endpoint: OptionalText,
    /// Header fields of each export request, by name. Default: none.
    #[cfg_attr(test, schemars(with = "BTreeMap<String, String>"))]
    pub(crate) headers: Metadata,
    /// Timeout for an export request, connecting included.
    pub(crate) timeout: Or<PositiveTime, { secs(10) }>,
    // Spring Boot's transport: `http` only.
    pub(crate) transport: Option<Spanned<String>>,
}

/// OpenTelemetry.
#[section]
pub(crate) struct RawOpenTelemetry {
    /// Attributes of the gateway in traces, by name. Default: none, and `service.name` is `tollgate`.
    #[cfg_attr(test, schemars(with = "BTreeMap<String, String>"))]
    pub(crate) resource_attributes: Metadata,
}

/// Traces of requests with their collector.
#[derive(Clone, Debug, PartialEq)]
pub struct OtlpExport {
    /// Share of sampled traces, from 0 to 1.
    pub probability: f64,
    /// Formats of the contexts of callers, the first one first.
    pub consume: Vec<TraceFormat>,
    /// Formats of the context that upstreams get.
    pub produce: Vec<TraceFormat>,
    /// URL of the collector: `http` or `https`, with a host and without credentials.
    pub endpoint: Uri,
    /// Header fields of each export request. Their values may be secret, and are marked so that `Debug` shows none.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// Timeout for an export request.
    pub timeout: Duration,
    /// Attributes of the gateway.
    pub resource: Vec<(String, String)>,
}

/// Checks the settings of traces. Returns `None` if they are off, or after an error.
pub(crate) fn check(raw: &RawManagement, diagnostics: &mut Diagnostics) -> Option<OtlpExport> {
    let collector = &raw.otlp.tracing;
    let probability = raw.tracing.sampling.probability.map_or(DEFAULT_PROBABILITY, Ranged::get);
    let timeout = collector.timeout.get();
    if let Some(transport) =
        collector.transport.as_ref().filter(|transport| !transport.value.eq_ignore_ascii_case("http"))
    {
        diagnostics
            .error(transport.span, format!("the transport `{}` is not supported", transport.value))
            .help("use `http`, and the collector's port for OTLP over HTTP, usually 4318");
    }
    let headers = headers(&collector.headers, diagnostics);
    let resource = resource(&raw.opentelemetry.resource_attributes);
    let propagation = &raw.tracing.propagation;
    let Some(url) = collector.endpoint.spanned() else {
        let formats = [&propagation.consume, &propagation.produce].map(|given| propagation.formats(given));
        if raw.tracing.enabled.get() && formats.concat().iter().any(|format| *format != TraceFormat::W3c) {
            diagnostics
                .note(
                    propagation.span.key(),
                    "`propagation` has no effect without a collector: upstreams get the fields of traces as clients send them",
                )
                .help("`management.otlp.tracing.endpoint` turns traces on; `sampling.probability: 0` starts none");
        }
        return None;
    };
    let endpoint = endpoint(url, diagnostics)?;
    raw.tracing.enabled.get().then(|| OtlpExport {
        probability,
        consume: propagation.formats(&propagation.consume),
        produce: propagation.formats(&propagation.produce),
        endpoint,
        headers,
        timeout,
        resource,
    })
}

fn endpoint(url: &Spanned<String>, diagnostics: &mut Diagnostics) -> Option<Uri> {
    let uri = url.parse::<Uri>().ok().filter(|uri| {
        matches!(uri.scheme_str(), Some("http" | "https"))
            && uri.host().is_some_and(|host| !host.is_empty())
            && !uri.authority().is_some_and(|authority| authority.as_str().contains('@'))
    });
    if uri.is_none() {
        diagnostics
            .error(url.span, "expected the URL of a collector, without credentials")
            .help("for example `http://localhost:4318/v1/traces`; credentials belong in `headers`");
    }
    uri.inspect(|uri| add_server(uri, url.span, diagnostics))
}

fn headers(fields: &Metadata, diagnostics: &mut Diagnostics) -> Vec<(HeaderName, HeaderValue)> {
    let mut headers = Vec::new();
    for (name, text) in fields.iter() {
        match (name.parse::<HeaderName>(), HeaderValue::from_str(text)) {
            (Ok(name), Ok(mut value)) => {
                value.set_sensitive(true);
                headers.push((name, value));
            }
            (Err(_), _) => {
                diagnostics
                    .error(text.span.key(), format!("`{name}` is not a valid field name"))
                    .help("use letters, digits and `-`");
            }
            (_, Err(_)) => {
                diagnostics
                    .error(text.span.key(), format!("the value of `{name}` is not a valid field value"))
                    .help("use visible ASCII characters");
            }
        }
    }
    headers
}

fn resource(attributes: &Metadata) -> Vec<(String, String)> {
    let default_name = [("service.name".to_owned(), "tollgate".to_owned())];
    let default_name = default_name.into_iter().filter(|(name, _)| attributes.get(name).is_none());
    default_name.chain(attributes.iter().map(|(name, text)| (name.clone(), text.value.clone()))).collect()
}
