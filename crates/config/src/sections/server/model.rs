//! The listener for traffic.

use std::net::IpAddr;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

/// The listener for traffic.
#[derive(Clone, Debug)]
pub struct Server {
    /// Address to listen on.
    pub address: IpAddr,
    /// Port to listen on; 0 lets the system choose.
    pub port: u16,
    /// Threads that serve, each with its own runtime.
    pub workers: NonZeroUsize,
    /// Whether HTTP/2 is served: agreed on under TLS, with prior knowledge without.
    pub http2: bool,
    /// TLS; `None`: clear text.
    pub tls: Option<ServerTls>,
    /// Bytes that a request's head may have.
    pub max_header_bytes: usize,
    /// Header fields that a request may have.
    pub max_headers: usize,
    /// Bytes that a request's body may have; `None`: no limit.
    pub max_body_bytes: Option<u64>,
    /// Connections that the gateway holds at once.
    pub max_connections: usize,
    /// Time in which a request's head must arrive.
    pub header_timeout: Duration,
    /// Time for which an idle connection is kept.
    pub idle_timeout: Duration,
    /// Time within which the next piece of a request's body must arrive.
    pub body_timeout: Duration,
    /// Time within which the client must take the next piece of a response.
    pub write_timeout: Duration,
    /// Time that requests in flight have to end when the gateway stops.
    pub shutdown_timeout: Duration,
}

/// TLS towards clients: certificates that were read and fit their keys. Shared, so that a client may resume on any
/// worker.
#[derive(Clone)]
pub struct ServerTls(pub Arc<rustls::ServerConfig>);

impl std::fmt::Debug for ServerTls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ServerTls") // nothing of a key belongs into a log
    }
}
