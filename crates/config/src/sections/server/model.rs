//! The listener for traffic.

use std::net::IpAddr;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

/// Listener for traffic.
#[derive(Clone, Debug)]
pub struct Server {
    /// Address to listen on.
    pub address: IpAddr,
    /// Port to listen on; 0: any free port.
    pub port: u16,
    /// Worker threads, each with its own runtime.
    pub workers: NonZeroUsize,
    /// Enables HTTP/2: by ALPN with TLS, with prior knowledge without.
    pub http2: bool,
    /// TLS; `None`: clear text.
    pub tls: Option<ServerTls>,
    /// Upper bound of a request's head in bytes.
    pub max_header_bytes: usize,
    /// Upper bound of header fields in a request.
    pub max_headers: usize,
    /// Upper bound of a request's body in bytes; `None`: no limit.
    pub max_body_bytes: Option<u64>,
    /// Upper bound of concurrent connections.
    pub max_connections: usize,
    /// Timeout for the head of a request.
    pub header_timeout: Duration,
    /// Time after which an idle connection is closed.
    pub idle_timeout: Duration,
    /// Timeout for each part of a request body.
    pub body_timeout: Duration,
    /// Timeout for each write to the client.
    pub write_timeout: Duration,
    /// Time for in-flight requests when the gateway shuts down.
    pub shutdown_timeout: Duration,
}

/// TLS with clients: valid certificates with their keys. Shared, so that clients can resume sessions on any
/// worker.
#[derive(Clone)]
pub struct ServerTls(pub Arc<rustls::ServerConfig>);

impl std::fmt::Debug for ServerTls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ServerTls") // keys must not be logged
    }
}
