//! Errors of establishing a connection.

use std::io;

use thiserror::Error;

use crate::upstream::proxy::ProxyError;
use tollgate_transport::tls::TlsError;

/// Error of establishing a connection to an upstream.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The host name could not be resolved.
    #[error("cannot resolve the host name of the upstream")]
    Resolve(#[source] io::Error),
    /// The connection was refused, or the host is unreachable.
    #[error("cannot connect to the upstream")]
    Connect(#[source] io::Error),
    /// The address is the gateway's own admin port, which would take the request for one of an operator.
    #[error("the target is the admin port of the gateway itself")]
    OwnAdminPort,
    /// The connect timeout passed.
    #[error("the upstream did not accept the connection in time")]
    Timeout,
    /// The proxy refused or failed.
    #[error("cannot connect through `httpclient.proxy`")]
    Proxy(#[source] ProxyError),
    /// The TLS handshake failed.
    #[error("TLS handshake with the upstream failed")]
    Tls(#[source] TlsError),
    /// The TLS handshake exceeded `handshake-timeout`.
    #[error("the upstream did not complete the TLS handshake in time")]
    TlsTimeout,
    /// The HTTP handshake failed.
    #[error("HTTP handshake with the upstream failed")]
    Handshake(#[source] hyper::Error),
    /// The HTTP/2 handshake failed.
    #[error("HTTP handshake with the upstream failed")]
    Http2(#[source] h2::Error),
    /// All connections allowed by `httpclient.pool.max-connections`, or their streams, were in use for `acquire-timeout`.
    #[error("all connections allowed by `httpclient.pool.max-connections` are in use")]
    Exhausted,
}
