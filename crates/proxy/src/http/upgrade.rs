//! Requests to switch protocols.

use std::any::Any;
use std::fmt::{self, Debug};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use http::Version;
use http::header::{CONNECTION, HeaderMap, HeaderValue, UPGRADE};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::http::fields::has_token;
use crate::http::handler::ConnectionHandle;
use tollgate_config::Config;

/// Protocol that is always allowed.
const WEBSOCKET: &str = "websocket";

/// Request to switch protocols. A request extension, present only on such requests.
#[derive(Clone, Debug)]
pub struct Upgrade {
    /// Requested protocols, as the client names them.
    pub protocol: HeaderValue,
    /// Client connection that becomes the tunnel.
    pub host: Arc<dyn ConnectionHandle>,
    /// Time after which a silent tunnel is closed; `None`: never.
    pub idle_timeout: Option<Duration>,
}

/// Response extension: state of an open tunnel.
#[derive(Clone, Debug, Default)]
pub struct TunnelState(Arc<AtomicBool>);

impl TunnelState {
    /// Notes that the tunnel is closed because of its idle limit.
    pub fn set_idle(&self) {
        self.0.store(true, Relaxed);
    }

    /// Returns true if the idle limit closed the tunnel.
    #[must_use]
    pub fn was_idle(&self) -> bool {
        self.0.load(Relaxed)
    }
}

/// Socket of a client connection that has become a tunnel.
pub struct TunnelClient {
    /// Bytes of the tunnel.
    pub stream: Box<dyn TunnelStream>,
    /// Counts the tunnel as an open connection.
    pub open: Box<dyn Any + Send>,
}

impl Debug for TunnelClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TunnelClient")
    }
}

/// Byte stream of a tunnel.
pub trait TunnelStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> TunnelStream for S {}

/// Rules for requests to switch protocols.
#[derive(Debug)]
pub struct UpgradePolicy {
    /// Allowed protocols besides `websocket`.
    protocols: Vec<String>,
    /// Time after which a silent tunnel is closed; `None`: never.
    idle_timeout: Option<Duration>,
}

impl UpgradePolicy {
    /// Returns the rules of `config`; `None` if no request is tunnelled.
    #[must_use]
    pub fn of(config: &Config) -> Option<Self> {
        let protocols = config.server.upgrade_protocols.iter().map(|protocol| String::clone(protocol)).collect();
        let idle_timeout = config.server.tunnel_idle_timeout.and_then(|timeout| timeout.0);
        config.forwarding.tunnels.then_some(Self { protocols, idle_timeout })
    }

    /// Returns the request of an HTTP/1.1 client to turn `host` into a tunnel. All protocols that it names must be
    /// allowed, because the upstream selects one: with `h2c` or TLS, requests would pass no filter.
    #[must_use]
    pub fn requested(
        &self,
        version: Version,
        headers: &HeaderMap,
        host: &Arc<dyn ConnectionHandle>,
    ) -> Option<Upgrade> {
        let protocol = self.protocol(version, headers)?.clone();
        Some(Upgrade { protocol, host: Arc::clone(host), idle_timeout: self.idle_timeout })
    }

    fn protocol<'h>(&self, version: Version, headers: &'h HeaderMap) -> Option<&'h HeaderValue> {
        let mut fields = headers.get_all(UPGRADE).iter();
        let (Some(field), None, Version::HTTP_11) = (fields.next(), fields.next(), version) else { return None };
        let is_requested = headers.get_all(CONNECTION).iter().any(|value| has_token(value, b"upgrade"));
        let is_allowed = field.as_bytes().split(|byte| *byte == b',').all(|name| self.allows(name.trim_ascii()));
        (is_requested && is_allowed).then_some(field)
    }

    fn allows(&self, name: &[u8]) -> bool {
        let mut allowed = self.protocols.iter().map(String::as_str).chain([WEBSOCKET]);
        allowed.any(|protocol| name.eq_ignore_ascii_case(protocol.as_bytes()))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn only_websocket_and_the_listed_protocols_are_tunnelled() {
        let policy = UpgradePolicy { protocols: vec!["chat".into()], idle_timeout: None };
        let is_tunnelled = |version, connection: &'static str, protocol: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(CONNECTION, HeaderValue::from_static(connection));
            headers.insert(UPGRADE, protocol.parse().unwrap());
            policy.protocol(version, &headers).is_some()
        };
        for protocol in ["websocket", "WebSocket", "chat", "Chat, websocket"] {
            assert!(is_tunnelled(Version::HTTP_11, "keep-alive, Upgrade", protocol), "{protocol}");
        }
        let refused =
            ["h2c", "HTTP/2.0", "h2c/1.0", "\"h2c\"", "TLS/1.2", "other", "websocket;h2c", "websocket h2c", ""];
        for protocol in refused {
            for list in [protocol.to_owned(), format!("websocket, {protocol}"), format!("{protocol},chat")] {
                assert!(!is_tunnelled(Version::HTTP_11, "Upgrade", &list), "{list}");
            }
        }
        assert!(!is_tunnelled(Version::HTTP_10, "Upgrade", "websocket"));
        assert!(!is_tunnelled(Version::HTTP_11, "keep-alive", "websocket"));
    }

    #[test]
    fn repeated_fields_are_no_upgrade() {
        let policy = UpgradePolicy { protocols: Vec::new(), idle_timeout: None };
        let mut headers = HeaderMap::new();
        headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
        for protocol in ["websocket", "h2c"] {
            headers.append(UPGRADE, HeaderValue::from_static(protocol));
        }
        assert!(policy.protocol(Version::HTTP_11, &headers).is_none());
    }
}
