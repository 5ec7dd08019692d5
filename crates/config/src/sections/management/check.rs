//! Checks of the management listener and the request metrics.

use std::net::{IpAddr, Ipv4Addr};

use tollgate_filters::client_certificate::{CertificatePart, CertificateSelector};

use crate::de::{Flag, Metadata, Spanned};
use crate::diagnostics::Diagnostics;
use crate::sections::management::keys::{OnTrafficPort, RawManagement, RawRequestSeries};
use crate::sections::management::model::{Management, RequestSeries, TrafficEndpoints};
use crate::sections::management::tokens::{self, AdminTokens};
use crate::sections::management::{endpoints, server as admin_server, tracing};
use crate::sections::tls::client_auth::ForwardClientCert;
use crate::sections::tls::server::{self, ServerTls};
use crate::sections::{Secret, port_from};

/// Port without `management.server.port`.
const DEFAULT_PORT: u16 = 9090;

/// Listener for traffic, as far as management depends on it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TrafficListener<'t> {
    /// Its port.
    pub(crate) port: u16,
    /// Prefix of every path, such as `/api`.
    pub(crate) base_path: &'t str,
}

/// Checks the management listener.
pub(crate) fn management(
    raw: &RawManagement,
    traffic: TrafficListener<'_>,
    env: &dyn Fn(&str) -> Option<String>,
    diagnostics: &mut Diagnostics,
) -> Management {
    let overridden = port_from("MANAGEMENT_SERVER_PORT", env, diagnostics);
    let requested_port = overridden.map(i32::from).or(raw.server.port.map(|port| port.value));
    let is_auto = raw.on_traffic_port.is_some_and(|word| word.value == OnTrafficPort::Auto);
    let is_shared = is_auto && requested_port.is_none_or(|port| port != 0 && port == i32::from(traffic.port));
    // A shared port is no port of its own: the admin port stays at its default.
    let is_separate_port = |port: &i32| !(is_shared && *port == i32::from(traffic.port));
    let overridden = overridden.filter(|port| is_separate_port(&i32::from(*port)));
    let port_key = raw.server.port.filter(|port| is_separate_port(&port.value));
    let enabled = raw.enabled.get() && port_key.is_none_or(|port| port.value != -1 || overridden.is_some());
    let port = overridden.unwrap_or_else(|| listening_port(port_key, diagnostics));
    let suffice = overridden.is_none() && port_key.is_none();
    let on_traffic = on_traffic(raw, (enabled, is_shared), traffic, diagnostics)
        .map(|endpoints| TrafficEndpoints { suffice, ..endpoints });
    let address = raw.server.address.as_ref().map_or(IpAddr::V4(Ipv4Addr::LOCALHOST), |address| address.value.0);
    let mark = diagnostics.mark();
    let tokens = tokens::check(&raw.tokens, diagnostics);
    let socket = admin_server::socket(&raw.server, diagnostics).filter(|_| raw.enabled.get());
    let (tls, forwards) = server::check(raw.server.ssl.as_deref(), None, false, diagnostics);
    if let Some(at) = raw.server.ssl.as_deref().and_then(|ssl| ssl.step("forward-client-cert"))
        && forwards != ForwardClientCert::Off
    {
        diagnostics
            .mistake(at.span.key(), "`forward-client-cert` has no effect here: the admin port has no upstreams")
            .help("write it below `server.ssl`");
    }
    if enabled {
        report_port(port_key, port, traffic.port, diagnostics);
        if !diagnostics.has_errors_since(mark) {
            report_exposure(raw, &tokens, tls.as_ref(), diagnostics);
        }
        if is_auto {
            note_differences(raw, port, (is_shared, on_traffic.as_ref()), diagnostics);
        }
    }
    Management {
        enabled,
        socket,
        certificate_writers: certificate_writers(raw, tls.as_ref(), diagnostics),
        tls,
        origin: raw.server.origin.clone(),
        address,
        port,
        readiness_needs_redis: raw.readiness.redis.get(),
        actuator: endpoints::check(raw, diagnostics),
        on_traffic,
        tags: labels(&raw.metrics.tags, diagnostics),
        metrics_are_open: raw.metrics.open.get(),
        tokens,
        key_hashing: key_hashing(raw, diagnostics),
        traces: tracing::check(raw, diagnostics),
    }
}

/// Returns the endpoints on the port for traffic. Those that the file asks for need no management listener.
fn on_traffic(
    raw: &RawManagement,
    (enabled, is_shared): (bool, bool),
    traffic: TrafficListener<'_>,
    diagnostics: &mut Diagnostics,
) -> Option<TrafficEndpoints> {
    let always = raw.on_traffic_port.filter(|word| word.value == OnTrafficPort::Always);
    let is_off = !raw.enabled.get();
    if let Some(at) = always.filter(|_| is_off) {
        diagnostics
            .mistake(at.span, "`on-traffic-port` has no effect with `management.enabled: false`")
            .ineffective()
            .help("for these endpoints without a management listener, write `management.server.port: -1` instead");
    }
    let is_served = !is_off && (enabled || always.is_some());
    if is_served { endpoints::on_traffic(raw, is_shared || always.is_some(), traffic.base_path) } else { None }
}

/// Returns the port of the listener; the default for -1, which disables it.
fn listening_port(port_key: Option<Spanned<i32>>, diagnostics: &mut Diagnostics) -> u16 {
    let Some(port) = port_key.filter(|port| port.value != -1) else { return DEFAULT_PORT };
    u16::try_from(port.value).unwrap_or_else(|_| {
        diagnostics.error(
            port.span,
            format!("expected a port from 0 to 65535, or -1 for no management listener, found `{}`", port.value),
        );
        DEFAULT_PORT
    })
}

/// Reports a listener that other machines can reach, if that serves less or more than expected.
fn report_exposure(raw: &RawManagement, tokens: &AdminTokens, tls: Option<&ServerTls>, diagnostics: &mut Diagnostics) {
    if tls.is_some_and(|tls| tls.identifies_clients) {
        return;
    }
    let Some(at) = raw.server.address.as_ref().filter(|address| !address.value.0.is_loopback()) else { return };
    if tokens.is_empty() && !raw.metrics.open.get() {
        diagnostics
            .warn(at.span, "without `management.tokens`, this address serves only health")
            .help("add a token with `role: read` or `write`, or `management.metrics.open: true` for Prometheus alone");
    } else if !tokens.is_empty() && tls.is_none() {
        diagnostics
            .note(at.span, "tokens cross the network unencrypted: the management port has no TLS")
            .help("set `management.server.ssl`, or keep the port in a trusted network");
    }
}

/// Returns the client certificates that may change something. Reports names without effect.
fn certificate_writers(
    raw: &RawManagement,
    tls: Option<&ServerTls>,
    diagnostics: &mut Diagnostics,
) -> Vec<CertificateSelector> {
    let names = &raw.server.certificate_writers;
    if let Some(first) = names.first().filter(|_| !tls.is_some_and(|tls| tls.identifies_clients)) {
        diagnostics
            .mistake(first.span, "`certificate-writers` has no effect: clients are not asked for a certificate")
            .help("add `management.server.ssl.client-auth: need` or `want`");
    }
    if let Some(empty) = names.iter().find(|name| name.value.trim().is_empty()) {
        diagnostics.mistake(empty.span, "no certificate has an empty name").help("remove it");
    }
    let selectors = names.iter().filter(|name| !name.value.trim().is_empty()).filter_map(|name| {
        let selector = CertificateSelector::parse(name.value.trim());
        if selector.is_none() {
            let parts = CertificatePart::ALL.map(|part| format!("`tls:{}=VALUE`", part.as_str())).join(", ");
            let error = diagnostics.error(name.span, format!("`{}` names no part of a certificate", name.value));
            error.help(format!("write {parts}, or a name of any kind without `tls:`"));
        }
        selector
    });
    selectors.collect()
}

/// Reports a listener on the port of the other one.
fn report_port(port_key: Option<Spanned<i32>>, port: u16, traffic: u16, diagnostics: &mut Diagnostics) {
    if let Some(port_key) = port_key.filter(|port_key| port == traffic && i32::from(port) == port_key.value)
        && port != 0
    {
        diagnostics
            .error(port_key.span, format!("{port} is the port for traffic; management needs its own"))
            .help("remove it for the default 9090, or use another port");
    }
}

/// Notes differences from Spring Boot, and what clients of the port for traffic can read.
fn note_differences(
    raw: &RawManagement,
    port: u16,
    (is_shared, on_traffic): (bool, Option<&TrafficEndpoints>),
    diagnostics: &mut Diagnostics,
) {
    let actuator = on_traffic.map(|endpoints| &endpoints.actuator);
    let open = actuator.and_then(|actuator| actuator.gateway.as_ref().or(actuator.prometheus.as_ref()));
    if let (Some(exposed), Some(path)) = (&raw.endpoints.web.exposure.include, open) {
        diagnostics
            .note(exposed.span, format!("every client of the port for traffic can read `{path}`, as in Spring Boot"))
            .help(format!("`health` alone suffices for probes; the management port {port} on 127.0.0.1 serves all"));
    }
    if let Some(port_key) = raw.server.port.filter(|_| raw.server.address.is_none() && !is_shared) {
        diagnostics
            .note(port_key.span, "the management port listens on 127.0.0.1; Spring's listens on every address")
            .help("`management.server.address: 0.0.0.0` admits probes and Prometheus from other machines");
    }
}

/// Labels for Prometheus: letters, digits and `_`, which replaces all other characters of Micrometer's names.
fn labels(tags: &Metadata, diagnostics: &mut Diagnostics) -> Vec<(String, String)> {
    let mut labels: Vec<(String, String)> = Vec::new();
    for (name, text) in tags.iter() {
        let label: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
        if label.is_empty() || label.starts_with(|c: char| c.is_ascii_digit()) || label.starts_with("__") {
            diagnostics.error(text.span.key(), format!("`{name}` is not a valid label")).help("start it with a letter");
        } else {
            labels.push((label, text.value.clone()));
        }
    }
    labels
}

/// Checks the metrics of requests.
pub(crate) fn request_series(raw: &RawRequestSeries, diagnostics: &mut Diagnostics) -> RequestSeries {
    let prefix = raw.prefix.get().unwrap_or("spring.cloud.gateway");
    let name: String =
        format!("{prefix}.requests.seconds").chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    if let Some(prefix) = raw.prefix.spanned()
        && !name.starts_with(|c: char| c.is_ascii_alphabetic())
    {
        diagnostics
            .error(prefix.span, format!("`{}` cannot start a metric name", prefix.value))
            .help("start it with a letter");
    }
    let mut tags = labels(&raw.tags, diagnostics);
    // `metrics.tags.path.enabled` is the former name of `path-tags.enabled`.
    let older = tags.iter().position(|(name, _)| name == "path_enabled").map(|at| tags.remove(at).1 == "true");
    RequestSeries {
        enabled: raw.enabled.get(),
        name,
        tags,
        path: raw.path_tags.enabled.map(Flag::get).or(older).unwrap_or(false),
    }
}

/// Shortest key of the hashes, in bytes.
const MIN_BYTES: usize = 16;

/// Hashing of shown key ids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyHashing {
    /// Key of the hashes; `None` for a random one of the process.
    pub secret: Option<Secret>,
}

/// Checks the key of the hashes. Reports errors.
fn key_hashing(raw: &RawManagement, diagnostics: &mut Diagnostics) -> Option<KeyHashing> {
    let secret = raw.hash_secret.as_ref().filter(|secret| !secret.value.is_empty());
    if let Some(short) = secret.filter(|secret| secret.value.len() < MIN_BYTES) {
        let length = short.value.len();
        diagnostics
            .error(short.span, format!("`hash-secret` has {length} bytes; at least {MIN_BYTES} are required"))
            .help("`openssl rand -base64 32` prints a good one");
    }
    if !raw.hash_keys.get() {
        if let Some(secret) = secret {
            diagnostics.mistake(secret.span.key(), "`hash-secret` has no effect").help("add `hash-keys: true`");
        }
        return None;
    }
    Some(KeyHashing { secret: secret.map(|secret| Secret(secret.value.clone())) })
}
