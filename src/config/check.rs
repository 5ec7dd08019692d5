//! Raw to checked: every section but the routes.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::num::NonZeroUsize;
use std::time::Duration;

use http::StatusCode;
use http::header::HeaderValue;
use tollgate_filters::headers::HeaderNames;
use tollgate_filters::key_resolver::KeyResolver;

use super::check_filters::header_name;
use super::check_limiter::Limits;
use super::check_trusted::trusted_proxies;
use super::model::{
    AccessLog, AccessLogFormat, Config, Forwarding, HttpClient, LogFormat, LogOutput, Logging, Management, Memory,
    Server, Underscores,
};
use super::problem::Sink;
use super::raw::{
    RawAccessLogFormat, RawConfig, RawHttpClient, RawLogFormat, RawLogLevel, RawManagement, RawServer, RawUnderscores,
};
use super::spot::{Spot, Whole};
use super::status::parse_status;
use super::units::Time;
use super::yaml::{Kind, Node, Origin};
use super::{check_redis, check_routes};

/// Heads smaller than this would refuse ordinary browsers.
const MIN_HEADER_BYTES: u64 = 8 * 1024;
/// Larger heads are no heads: every connection may hold one.
const MAX_HEADER_BYTES: u64 = 16 * 1024 * 1024;

/// The nodes below a root by their place.
pub(crate) struct Nodes<'n>(BTreeMap<u32, &'n Node>);

impl<'n> Nodes<'n> {
    pub(crate) fn new(root: &'n Node) -> Self {
        let mut nodes = BTreeMap::new();
        index(root, &mut nodes);
        Self(nodes)
    }

    pub(crate) fn get(&self, whole: Whole) -> Option<&'n Node> {
        self.0.get(&whole.0.place).copied()
    }
}

fn index<'n>(node: &'n Node, into: &mut BTreeMap<u32, &'n Node>) {
    into.insert(node.origin.place, node);
    match &node.kind {
        Kind::Seq(items) => items.iter().for_each(|item| index(item, into)),
        Kind::Map(entries) => entries.iter().for_each(|(_, value)| index(value, into)),
        Kind::Null | Kind::Scalar(_) => {}
    }
}

/// The configuration that `raw` means. It is only good when `sink` has no errors afterwards.
pub(crate) fn check(
    raw: &RawConfig,
    nodes: &Nodes<'_>,
    env: &dyn Fn(&str) -> Option<String>,
    sink: &mut Sink,
) -> Config {
    if let Some(Spot { value: false, origin }) = raw.enabled {
        sink.error(origin, "`enabled: false` switches the gateway off, which leaves nothing to run").help("remove it");
    }
    let redis = raw.redis.as_ref().and_then(|redis| check_redis::check(redis, sink));
    let key_resolvers = key_resolvers(raw, nodes, sink);
    let limits = Limits {
        key_resolvers: &key_resolvers,
        deny_empty_key: raw.filter.request_rate_limiter.deny_empty_key.unwrap_or(true),
        empty_key_status: status(
            raw.filter.request_rate_limiter.empty_key_status_code.as_ref(),
            StatusCode::FORBIDDEN,
            sink,
        ),
        headers: limiter_headers(raw, sink),
        has_redis: redis.is_some(),
        original_status_header: raw
            .set_status
            .original_status_header_name
            .as_ref()
            .and_then(|name| header_name(&name.value, name.origin, sink)),
    };
    let routes = check_routes::check(raw, nodes, &limits, sink);
    Config {
        server: server(&raw.server, nodes, env, sink),
        management: management(&raw.management, env, sink),
        redis,
        memory: Memory { max_keys: raw.memory.max_keys.unwrap_or(NonZeroUsize::MIN.saturating_add(999_999)) },
        access_log: AccessLog {
            output: match raw.access_log.output.as_deref() {
                None | Some("stdout") => LogOutput::Stdout,
                // YAML 1.1 writes `off` for false.
                Some("off" | "false") => LogOutput::Off,
                Some(path) => LogOutput::File(path.into()),
            },
            format: match raw.access_log.format {
                None | Some(RawAccessLogFormat::Combined) => AccessLogFormat::Combined,
                Some(RawAccessLogFormat::Json) => AccessLogFormat::Json,
            },
        },
        logging: Logging {
            format: match raw.log.format {
                None | Some(RawLogFormat::Text) => LogFormat::Text,
                Some(RawLogFormat::Json) => LogFormat::Json,
            },
            level: match raw.log.level {
                Some(RawLogLevel::Error) => tracing::Level::ERROR,
                Some(RawLogLevel::Warn) => tracing::Level::WARN,
                None | Some(RawLogLevel::Info) => tracing::Level::INFO,
                Some(RawLogLevel::Debug) => tracing::Level::DEBUG,
                Some(RawLogLevel::Trace) => tracing::Level::TRACE,
            },
        },
        forwarding: forwarding(raw, nodes, sink),
        http_client: http_client(&raw.httpclient, sink),
        routes,
        is_spring: sink.is_spring,
    }
}

fn server(raw: &RawServer, nodes: &Nodes<'_>, env: &dyn Fn(&str) -> Option<String>, sink: &mut Sink) -> Server {
    if let Some(ssl) = raw.ssl.and_then(|ssl| nodes.get(ssl))
        && ssl.get("enabled").and_then(Node::scalar) != Some("false")
    {
        sink.error(ssl.origin.key(), "TLS (`server.ssl`) is not supported yet")
            .help("end TLS in front of the gateway and remove `server.ssl`");
    }
    let max_header_bytes = raw.max_http_request_header_size.map_or(64 * 1024, |size| {
        if !(MIN_HEADER_BYTES..=MAX_HEADER_BYTES).contains(&size.value.0) {
            sink.error(size.origin, format!("must be from 8KB to 16MB, got {} bytes", size.value.0));
        }
        size.value.0
    });
    let max_headers = raw.max_headers.map_or(100, |count| {
        // More than 32768 fields do not fit into http's HeaderMap.
        if !(1..=10_000).contains(&count.value) {
            sink.error(count.origin, format!("`max-headers` must be from 1 to 10000, got {}", count.value));
        }
        count.value
    });
    let cores = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    Server {
        address: raw.address.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED)),
        port: port_from("SERVER_PORT", env, sink).or(raw.port).unwrap_or(8080),
        workers: raw.workers.unwrap_or(cores),
        http2: raw.http2.enabled.unwrap_or(true),
        max_header_bytes: usize::try_from(max_header_bytes).unwrap_or(usize::MAX),
        max_headers,
        max_body_bytes: raw.max_body_size.map(|size| size.0),
        max_connections: raw.max_connections.map_or(20_000, NonZeroUsize::get),
        header_timeout: positive(raw.header_timeout, 30, sink),
        idle_timeout: positive(raw.idle_timeout, 75, sink),
        body_timeout: positive(raw.body_timeout, 30, sink),
        write_timeout: positive(raw.write_timeout, 30, sink),
        shutdown_timeout: raw.shutdown_timeout.map_or(Duration::from_secs(30), |time| time.0),
    }
}

fn management(raw: &RawManagement, env: &dyn Fn(&str) -> Option<String>, sink: &mut Sink) -> Management {
    let mut enabled = raw.enabled.unwrap_or(true);
    let port = match (port_from("MANAGEMENT_SERVER_PORT", env, sink), raw.server.port) {
        (Some(port), _) => port,
        (None, None) => 9090,
        (None, Some(Spot { value: -1, .. })) => {
            enabled = false;
            9090
        }
        (None, Some(port)) => u16::try_from(port.value).unwrap_or_else(|_| {
            sink.error(
                port.origin,
                format!("expected a port from 0 to 65535, or -1 for no management listener, found `{}`", port.value),
            );
            9090
        }),
    };
    Management {
        enabled,
        address: raw.server.address.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST)),
        port,
        readiness_needs_redis: raw.readiness.redis.unwrap_or(false),
    }
}

fn port_from(variable: &str, env: &dyn Fn(&str) -> Option<String>, sink: &mut Sink) -> Option<u16> {
    let text = env(variable).filter(|text| !text.is_empty())?;
    let port = text.parse().ok();
    if port.is_none() {
        sink.error_nowhere(format!(
            "the environment variable {variable} must be a port from 0 to 65535, found `{text}`"
        ))
        .help(format!("unset {variable} or set it to a port"));
    }
    port
}

fn forwarding(raw: &RawConfig, nodes: &Nodes<'_>, sink: &mut Sink) -> Forwarding {
    let name = match &raw.via {
        Some(via) if matches!(via.value.as_str(), "false" | "off" | "no" | "") => None,
        Some(via) if via.value != "true" => Some(via.value.as_str()),
        _ => Some("tollgate"),
    };
    let via = name.and_then(|name| {
        // RFC 9110 §7.6.3: a pseudonym is a token, or host and port.
        let fits = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._:[]~".contains(&b));
        let value = if fits { HeaderValue::from_str(&format!("1.1 {name}")).ok() } else { None };
        if value.is_none() {
            let at = raw.via.as_ref().map_or(Origin { place: 0, key: false }, |via| via.origin);
            sink.error(at, format!("`via` must be a name such as `tollgate`, or false, found `{name}`"));
        }
        value
    });
    let remove_hop_by_hop = raw
        .filter
        .remove_hop_by_hop
        .headers
        .as_ref()
        .map(|names| names.iter().filter_map(|name| header_name(&name.value, name.origin, sink)).collect());
    Forwarding {
        trusted_proxies: trusted_proxies(raw.trusted_proxies.and_then(|whole| nodes.get(whole)), sink),
        underscores: match raw.headers.underscores {
            None | Some(RawUnderscores::Drop) => Underscores::Drop,
            Some(RawUnderscores::Allow) => Underscores::Allow,
            Some(RawUnderscores::Reject) => Underscores::Reject,
        },
        via,
        remove_hop_by_hop,
    }
}

fn http_client(raw: &RawHttpClient, sink: &mut Sink) -> HttpClient {
    let response_timeout = match raw.response_timeout {
        None if sink.is_spring => None,
        given => Some(positive(given, 60, sink)),
    };
    HttpClient {
        connect_timeout: positive(raw.connect_timeout, 5, sink),
        response_timeout,
        read_timeout: positive(raw.read_timeout, 60, sink),
        max_idle_time: positive(raw.pool.max_idle_time, 60, sink),
        max_idle: raw.pool.max_idle.unwrap_or(512),
    }
}

/// A duration above zero: nothing is ever done in no time.
fn positive(time: Option<Spot<Time>>, default_secs: u64, sink: &mut Sink) -> Duration {
    match time {
        None => Duration::from_secs(default_secs),
        Some(time) => {
            if time.value.0.is_zero() {
                sink.error(time.origin, "must be longer than 0").help("remove the key for the default");
            }
            time.value.0
        }
    }
}

fn status(text: Option<&Spot<String>>, default: StatusCode, sink: &mut Sink) -> StatusCode {
    text.and_then(|text| parse_status(&text.value).map_err(|message| sink.error(text.origin, message)).ok())
        .unwrap_or(default)
}

fn limiter_headers(raw: &RawConfig, sink: &mut Sink) -> HeaderNames {
    let raw = &raw.redis_rate_limiter;
    let mut headers = HeaderNames::default();
    headers.include = raw.include_headers.unwrap_or(headers.include);
    for (text, header) in [
        (&raw.remaining_header, &mut headers.remaining),
        (&raw.replenish_rate_header, &mut headers.replenish_rate),
        (&raw.burst_capacity_header, &mut headers.burst_capacity),
        (&raw.requested_tokens_header, &mut headers.requested_tokens),
    ] {
        if let Some(name) = text.as_ref().and_then(|text| header_name(&text.value, text.origin, sink)) {
            *header = name;
        }
    }
    headers
}

fn key_resolvers(raw: &RawConfig, nodes: &Nodes<'_>, sink: &mut Sink) -> BTreeMap<String, KeyResolver> {
    let mut resolvers = BTreeMap::new();
    for (name, whole) in &raw.key_resolvers {
        let Some(node) = nodes.get(*whole) else { continue };
        let parts: &[Node] = match &node.kind {
            Kind::Seq(items) => items,
            _ => std::slice::from_ref(node),
        };
        let mut parsed = Vec::with_capacity(parts.len());
        for part in parts {
            match part.scalar().map(KeyResolver::parse) {
                Some(Ok(resolver)) => parsed.push(resolver),
                Some(Err(error)) => drop(sink.error(part.origin, error.to_string())),
                None => sink
                    .error(part.origin, format!("expected a key resolver, found {}", part.describe()))
                    .help("write `ip`, `\"header:X-User\"`, or a list of such"),
            }
        }
        match (parsed.len(), parsed.pop()) {
            (1, Some(only)) => drop(resolvers.insert(name.clone(), only)),
            (_, Some(last)) => {
                parsed.push(last);
                resolvers.insert(name.clone(), KeyResolver::composite(parsed));
            }
            // The problem is reported; the name must not be called unknown as well.
            (_, None) => drop(KeyResolver::parse("ip").map(|stand_in| resolvers.insert(name.clone(), stand_in))),
        }
    }
    resolvers
}
