//! `access-log`, `log` and `request-id`: what the gateway writes of requests and of itself.

use std::path::PathBuf;

use http::HeaderName;

use tollgate_routing::Predicate;

use crate::de::{NodeRef, Word, read_by};
#[cfg(test)]
use crate::routes::raw_route::RawCondition;
#[cfg(test)]
use crate::sections::Scalar;

/// Access log: one line per request.
#[section(Clone)]
pub struct AccessLog {
    /// Destination: `stdout`, `off` or a file's path. Default `stdout`.
    #[cfg_attr(test, schemars(with = "Option<Scalar>"))]
    pub output: LogOutput,
    /// Format of a line: `combined` or `json`. Default {}, which all log tools read.
    pub format: Word<AccessLogFormat>,
    #[serde(rename = "exclude")]
    /// Requests without a line: predicates as those of routes, of which one must match, such as `Path=/health/**`. Default: none.
    #[cfg_attr(test, schemars(with = "Vec<RawCondition>"))]
    pub(crate) excluded: Vec<NodeRef>,
    /// Requests without a line match one of these predicates, from `exclude`.
    #[serde(skip)]
    pub exclude: Vec<Predicate>,
}

/// Destination of the access log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum LogOutput {
    /// Standard output.
    #[default]
    Stdout,
    /// Disabled.
    Off,
    /// Appended to a file.
    File(PathBuf),
}

/// Format of a line of the access log.
#[word(Default)]
pub enum AccessLogFormat {
    /// Apache's combined log format.
    #[default]
    Combined,
    /// One JSON object.
    Json,
}

/// The gateway's own log, on standard error.
#[section(Clone, PartialEq, Eq)]
pub struct Logging {
    /// Format of a line: `text` or `json`.
    pub format: Word<LogFormat>,
    /// Least severe level that is logged: `error`, `warn`, `info`, `debug` or `trace`.
    level: Word<LogLevel>,
}

/// Levels of the gateway's own log.
#[word(Default)]
enum LogLevel {
    Error,
    Warn,
    #[default]
    Info,
    Debug,
    Trace,
}

/// Format of a line of the gateway's own log.
#[word(Default)]
pub enum LogFormat {
    /// Text for people.
    #[default]
    Text,
    /// One JSON object.
    Json,
}

read_by! {
    LogOutput: |output| match output {
        "" => Err("`output` must be stdout, off or a file's path, found nothing".to_owned()),
        "stdout" => Ok(LogOutput::Stdout),
        // YAML 1.1 reads `off` as false.
        "off" | "false" => Ok(LogOutput::Off),
        path => Ok(LogOutput::File(path.into())),
    };
    IdHeader: |text| {
        let name = HeaderName::from_bytes(text.as_bytes());
        let name = name.map_err(|_| format!("`{text}` is not a valid header name"))?;
        if FRAMING.contains(&name.as_str()) {
            return Err(format!("`{name}` has a meaning of its own and cannot hold the request id"));
        }
        Ok(IdHeader(name))
    };
}

impl Logging {
    /// Returns the least severe level that is logged.
    pub fn level(&self) -> tracing::Level {
        match self.level.0 {
            LogLevel::Error => tracing::Level::ERROR,
            LogLevel::Warn => tracing::Level::WARN,
            LogLevel::Info => tracing::Level::INFO,
            LogLevel::Debug => tracing::Level::DEBUG,
            LogLevel::Trace => tracing::Level::TRACE,
        }
    }
}

/// Request ids: forwarded to upstreams, sent back to clients, and logged.
#[section(Clone, PartialEq, Eq)]
pub struct RequestId {
    /// Gives each request an id. Default: true if the access log is written as `json`, which contains the id, else false.
    enabled: Option<bool>,
    /// Header field of the id. An id that one of `trusted-proxies` sent is kept if it has 1 to 128 visible ASCII characters. Default `X-Request-Id`.
    #[cfg_attr(test, schemars(with = "Option<Scalar>"))]
    header: IdHeader,
}

/// Header field of an id.
#[derive(Clone, Debug, PartialEq, Eq)]
struct IdHeader(HeaderName);

impl RequestId {
    /// Returns the header field of the id; `None` if requests have none.
    pub fn header(&self, access_log: &AccessLog) -> Option<&HeaderName> {
        let is_logged = access_log.format.0 == AccessLogFormat::Json && access_log.output != LogOutput::Off;
        self.enabled.unwrap_or(is_logged).then_some(&self.header.0)
    }
}

impl Default for IdHeader {
    fn default() -> Self {
        Self(HeaderName::from_static("x-request-id"))
    }
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
        loaded.config.request_id.header(&loaded.config.access_log).map(ToString::to_string)
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
